// SPDX-License-Identifier: Apache-2.0
// Finds nodes that can receive the guest. Source: KubeVirt pkg/virt-handler/node-labeller;
// pkg/virt-controller/watch/migration.
import type { VirtualMachineInstance, VirtualMachineInstanceMigration } from "@patchbay/api";
import type { KubeNode } from "@patchbay/api/kubernetes";
import { findLayout } from "@patchbay/domain";
import { readTopologyVersion } from "../../nics/pcie/devices.ts";
import { buildCpu } from "../../vm/domain/machine.ts";
import type { VmiFacts } from "../../vm/vmi.ts";
import { findUnavailableNetworks, type Definitions } from "../../node/definitions.ts";
import { isNodeUnresponsive } from "../../node/node-loss.ts";
import { listNetworkNames } from "../../vm/pod/pod-networks.ts";
import { buildTargetNodeSelector } from "./target-pod.ts";
import { buildTargetPodView } from "./target-nics.ts";

type Labels = Readonly<Record<string, string>>;

const OWN_MODEL_PREFIX = "host-model-cpu.node.kubevirt.io/";
const ACCEPTED_MODEL_PREFIX = "cpu-model-migration.node.kubevirt.io/";
const VENDOR_PREFIX = "cpu-vendor.node.kubevirt.io/";

interface CpuRequirement {
  readonly labels: Labels;
  readonly problem?: string;
}

const NO_CPU_LABELS: CpuRequirement = { labels: {} };

function findCpuMode(vmi: VirtualMachineInstance, useEmulation: boolean): string | undefined {
  const { hasKubeVirtDefaults } = findLayout(readTopologyVersion(vmi));
  return buildCpu(vmi.spec.domain, { useEmulation, hasKubeVirtDefaults }).model?.mode;
}

function labelsWith(prefix: string, { metadata }: KubeNode): Labels {
  const labelEntries = Object.entries(metadata.labels ?? {});
  return Object.fromEntries(labelEntries.filter(([key]) => key.startsWith(prefix)));
}

/** Requires a node with the same CPU. libvirt does not compare host-passthrough CPUs, and a guest crashes if instructions are missing. */
function requireSameCpu(node: KubeNode): CpuRequirement {
  const cpuLabels = labelsWith(OWN_MODEL_PREFIX, node);
  if (Object.keys(cpuLabels).length === 0) {
    const problem = `no node can be known to have the processors of node ${node.metadata.name}, which the guest has (host-passthrough): it has no label ${OWN_MODEL_PREFIX}MODEL; name a CPU model in the VM`;
    return { labels: {}, problem };
  }
  return { labels: { ...labelsWith(VENDOR_PREFIX, node), ...cpuLabels } };
}

/**
 * Requires a node of the same CPU vendor that accepts the source node's CPU model. If the source node has no model label, the model
 * does not restrict the choice of node, and only libvirt compares the models.
 */
function requireAcceptedModel(node: KubeNode): CpuRequirement {
  const models = Object.keys(labelsWith(OWN_MODEL_PREFIX, node));
  const acceptedLabels = models.map(
    (key) => [`${ACCEPTED_MODEL_PREFIX}${key.slice(OWN_MODEL_PREFIX.length)}`, "true"] as const,
  );
  return { labels: { ...labelsWith(VENDOR_PREFIX, node), ...Object.fromEntries(acceptedLabels) } };
}

/** Returns the CPU labels that the target node must have. `node` is the source node, or undefined if it is unknown. */
export function findCpuRequirement(
  { vmi, settings }: VmiFacts,
  node: KubeNode | undefined,
): CpuRequirement {
  if (node === undefined || settings.useEmulation) return NO_CPU_LABELS;
  const mode = findCpuMode(vmi, false);
  if (mode === "host-passthrough") return requireSameCpu(node);
  return mode === "host-model" ? requireAcceptedModel(node) : NO_CPU_LABELS;
}

function isAvailable(node: KubeNode): boolean {
  return !isNodeUnresponsive(node) && node.spec?.unschedulable !== true;
}

function hasLabels({ metadata }: KubeNode, requiredLabels: Labels): boolean {
  return Object.entries(requiredLabels).every(([key, value]) => metadata.labels?.[key] === value);
}

function printLabels(labels: Labels): string {
  return Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .toSorted()
    .join(", ");
}

function listUsedDefinitions({ vmi, definitions }: VmiFacts): Definitions {
  const networkNames = listNetworkNames(buildTargetPodView(vmi), {});
  return new Map([...definitions].filter(([network]) => networkNames.includes(network)));
}

function findMissingNetwork(
  nodes: readonly KubeNode[],
  definitions: Definitions,
): string | undefined {
  const names = nodes.map(({ metadata }) => metadata.name);
  const absences = names.map(
    (name) => [...findUnavailableNetworks(name, definitions, names).values()][0],
  );
  return absences.includes(undefined) ? undefined : absences[0]?.message;
}

/** Returns why no node can receive the guest. Undefined if a node may be suitable or the nodes are unknown. */
export function noTargetReason(
  facts: VmiFacts,
  migration: VirtualMachineInstanceMigration,
  nodes: readonly KubeNode[],
): string | undefined {
  const source = facts.pod?.spec.nodeName;
  const sourceNode = nodes.find(({ metadata }) => metadata.name === source);
  if (sourceNode === undefined) return undefined;
  const otherNodes = nodes.filter((node) => node.metadata.name !== source && isAvailable(node));
  if (otherNodes.length === 0) {
    return `no node can take the guest: beside node ${source ?? ""} there is none that answers and takes new pods`;
  }
  const cpu = findCpuRequirement(facts, sourceNode);
  if (cpu.problem !== undefined) return cpu.problem;
  const requiredLabels = buildTargetNodeSelector(facts.vmi, migration, cpu.labels);
  const suitableNodes = otherNodes.filter((node) => hasLabels(node, requiredLabels));
  if (suitableNodes.length === 0) {
    return `no node can take the guest: none but node ${source ?? ""} has the labels that the VM, its processors or the migration ask for: ${printLabels(requiredLabels)}`;
  }
  return findMissingNetwork(suitableNodes, listUsedDefinitions(facts));
}
