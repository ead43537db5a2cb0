// SPDX-License-Identifier: Apache-2.0
// What is known of the node of a launcher pod: whether it answers, and which networks it lacks.
import type { Pod, VirtualMachineInstance } from "@patchbay/api";
import {
  isNodeLost,
  networkNamesOf,
  networksNotOn,
  nodeLossOf,
  type Definitions,
  type NetworkAbsences,
  type NodeLoss,
} from "@patchbay/core";
import type { Deps } from "../deps.ts";

/** What is told of the pod's node where it does not answer. */
export function findLoss(
  pod: Pod | undefined,
  { nodes }: Pick<Deps, "nodes">,
): NodeLoss | undefined {
  const name = pod?.spec.nodeName;
  return name === undefined ? undefined : nodeLossOf(nodes.find({ name }));
}

/**
 * What the pod's node cannot make NICs of, of the networks that the VMI names itself: of one that a binding brings along only
 * the node has words. The other nodes are listed only where it matters.
 */
export function findAbsences(
  { vmi, pod }: { readonly vmi: VirtualMachineInstance; readonly pod: Pod | undefined },
  definitions: Definitions,
  { nodes }: Pick<Deps, "nodes">,
): NetworkAbsences {
  const node = pod?.spec.nodeName;
  const named = networkNamesOf(vmi, {});
  const own = new Map([...definitions].filter(([network]) => named.includes(network)));
  if (node === undefined || networksNotOn(node, own, []).size === 0) return new Map();
  const others = nodes.list().filter((each) => !isNodeLost(each));
  return networksNotOn(node, own, others.map(({ metadata }) => metadata.name).toSorted());
}
