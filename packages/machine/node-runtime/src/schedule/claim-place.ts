// SPDX-License-Identifier: Apache-2.0
// On which nodes can the volumes of a pod's claims be used? Pure. Source: Kubernetes scheduler, volume binding.
import type { KubeNode, PersistentVolume, Pod } from "@patchbay/api";
import { claimNamesOf, type ClaimLookup } from "../claims/index.ts";
import { selectsNode, type NodeTerm } from "./selectors.ts";

/** As it is on the wire; of the right types, but any of it may be missing. */
interface VolumeAffinity {
  readonly required?: { readonly nodeSelectorTerms?: readonly NodeTerm[] };
}

function isWithin({ spec }: PersistentVolume, node: KubeNode): boolean {
  // The API server has seen to its form.
  const { required } = (spec.nodeAffinity ?? {}) as VolumeAffinity;
  return required === undefined || selectsNode(required.nodeSelectorTerms ?? [], node);
}

/**
 * Why the pod's volumes cannot be used on the node; undefined: they can. A claim that has no volume yet gets one on the disk
 * of `home`.
 */
export function volumeProblem(
  pod: Pod,
  node: KubeNode,
  { home, lookup }: { readonly home: string; readonly lookup: ClaimLookup },
): string | undefined {
  const isUsable = (name: string): boolean => {
    const volume = lookup.findVolume(lookup.findClaim(name)?.spec.volumeName ?? "");
    return volume === undefined ? node.metadata.name === home : isWithin(volume, node);
  };
  const conflict = "node(s) had volume node affinity conflict";
  return claimNamesOf(pod).every(isUsable) ? undefined : conflict;
}
