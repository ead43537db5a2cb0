// SPDX-License-Identifier: Apache-2.0
// Is there a node that could take the guest? What can be known beforehand is said before anything is made; the rest the scheduler says.
import type { KubeNode, VirtualMachineInstanceMigration } from "@patchbay/api";
import { networksNotOn, type Definitions } from "../../node/definitions.ts";
import { isNodeLost } from "../../node/node-loss.ts";
import { networkNamesOf } from "../../plan/pod/pod-networks.ts";
import type { VmiFacts } from "../../plan/vm/vmi.ts";
import { cpuNeedOf } from "../cpu-need.ts";
import { targetSelectorOf } from "./target-pod.ts";
import { travelView } from "./travellers.ts";

type Labels = Readonly<Record<string, string>>;

function isOpen(node: KubeNode): boolean {
  return !isNodeLost(node) && node.spec?.unschedulable !== true;
}

function hasLabels({ metadata }: KubeNode, wanted: Labels): boolean {
  return Object.entries(wanted).every(([key, value]) => metadata.labels?.[key] === value);
}

function printLabels(labels: Labels): string {
  return Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .toSorted()
    .join(", ");
}

/** Of the networks that the guest is on. */
function definitionsOf({ vmi, definitions }: VmiFacts): Definitions {
  const used = networkNamesOf(travelView(vmi), {});
  return new Map([...definitions].filter(([network]) => used.includes(network)));
}

/** Why each of them lacks a network; undefined: one of them has all. */
function absenceOn(nodes: readonly KubeNode[], definitions: Definitions): string | undefined {
  const names = nodes.map(({ metadata }) => metadata.name);
  const absences = names.map((name) => [...networksNotOn(name, definitions, names).values()][0]);
  return absences.includes(undefined) ? undefined : absences[0]?.message;
}

/** Why no node can take the guest; undefined: one might, or nothing is known of nodes. */
export function unfitReason(
  facts: VmiFacts,
  migration: VirtualMachineInstanceMigration,
  nodes: readonly KubeNode[],
): string | undefined {
  const source = facts.pod?.spec.nodeName;
  const own = nodes.find(({ metadata }) => metadata.name === source);
  if (own === undefined) return undefined;
  const others = nodes.filter((node) => node.metadata.name !== source && isOpen(node));
  if (others.length === 0) {
    return `no node can take the guest: beside node ${source ?? ""} there is none that answers and takes new pods`;
  }
  const cpu = cpuNeedOf(facts, own);
  if (cpu.problem !== undefined) return cpu.problem;
  const wanted = targetSelectorOf(facts.vmi, migration, cpu.labels);
  const fitting = others.filter((node) => hasLabels(node, wanted));
  if (fitting.length === 0) {
    return `no node can take the guest: none but node ${source ?? ""} has the labels that the VM, its processors or the migration ask for: ${printLabels(wanted)}`;
  }
  return absenceOn(fitting, definitionsOf(facts));
}
