// SPDX-License-Identifier: Apache-2.0
// On which nodes does a guest find the processors that it has? By the labels that KubeVirt's node labeller gives. Pure. Source: KubeVirt
// pkg/virt-handler/node-labeller; pkg/virt-controller/watch/migration, whose selectors these are.
import type { KubeNode, VirtualMachineInstance } from "@patchbay/api";
import { layoutOf } from "@patchbay/domain";
import { topologyVersionOf } from "../pcie/devices.ts";
import { cpuOf } from "../plan/node/guest/machine.ts";
import type { VmiFacts } from "../plan/vm/vmi.ts";

type Labels = Readonly<Record<string, string>>;

/** Which model a node's own processors are. */
const OWN_MODEL = "host-model-cpu.node.kubevirt.io/";
/** Of which models a node can take guests that come to it. */
const TAKES_MODEL = "cpu-model-migration.node.kubevirt.io/";
const VENDOR = "cpu-vendor.node.kubevirt.io/";

/** What a target's node must have. */
export interface CpuNeed {
  readonly labels: Labels;
  /** Why no node can be known to have it; absent: one can. */
  readonly problem?: string;
}

const NOTHING: CpuNeed = { labels: {} };

function modeOf(vmi: VirtualMachineInstance, useEmulation: boolean): string | undefined {
  const { hasKubeVirtDefaults } = layoutOf(topologyVersionOf(vmi));
  return cpuOf(vmi.spec.domain, { useEmulation, hasKubeVirtDefaults }).model?.mode;
}

function labelsWith(prefix: string, { metadata }: KubeNode): Labels {
  const all = Object.entries(metadata.labels ?? {});
  return Object.fromEntries(all.filter(([key]) => key.startsWith(prefix)));
}

/** The same processors: libvirt does not compare them, and a guest that misses some of their instructions dies later. */
function sameAs(node: KubeNode): CpuNeed {
  const own = labelsWith(OWN_MODEL, node);
  if (Object.keys(own).length === 0) {
    const problem = `no node can be known to have the processors of node ${node.metadata.name}, which the guest has (host-passthrough): it has no label ${OWN_MODEL}MODEL; name a CPU model in the VM`;
    return { labels: {}, problem };
  }
  return { labels: { ...labelsWith(VENDOR, node), ...own } };
}

/** A node that takes guests of that model; without labels libvirt compares, before anything is sent. */
function takesFrom(node: KubeNode): CpuNeed {
  const models = Object.keys(labelsWith(OWN_MODEL, node));
  const taking = models.map(
    (key) => [`${TAKES_MODEL}${key.slice(OWN_MODEL.length)}`, "true"] as const,
  );
  return { labels: { ...labelsWith(VENDOR, node), ...Object.fromEntries(taking) } };
}

/** By the node that has the guest; undefined: nothing is known of it. */
export function cpuNeedOf({ vmi, settings }: VmiFacts, node: KubeNode | undefined): CpuNeed {
  // Emulated processors are the same everywhere.
  if (node === undefined || settings.useEmulation) return NOTHING;
  const mode = modeOf(vmi, false);
  if (mode === "host-passthrough") return sameAs(node);
  return mode === "host-model" ? takesFrom(node) : NOTHING;
}
