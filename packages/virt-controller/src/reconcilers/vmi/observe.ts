// SPDX-License-Identifier: Apache-2.0
// Which facts the VMI loop looks at.
import { isPodFinished, networkConfigOf, usesEmulation, type Pod } from "@patchbay/api";
import type { VmiFacts } from "@patchbay/core";
import { PODS_BY_VMI_UID, type Deps } from "../../deps.ts";
import { parseKey } from "@patchbay/kube";

/** The pod that counts: one that still runs before one that is finished. */
function choosePod(pods: readonly Pod[]): Pod | undefined {
  return pods.find((pod) => !isPodFinished(pod)) ?? pods[0];
}

/** The facts of a VMI; undefined when it is gone, or when the caches are behind this process's own writes. */
export function observeVmi(key: string, deps: Deps): VmiFacts | undefined {
  const vmi = deps.vmis.find(parseKey(key));
  if (vmi === undefined || deps.ownWrites.isBehind(vmi)) return undefined;
  const pod = choosePod(deps.pods.listBy(PODS_BY_VMI_UID, vmi.metadata.uid ?? ""));
  if (pod !== undefined && deps.ownWrites.isBehind(pod)) return undefined;
  const kubevirt = deps.kubevirts.list()[0];
  const settings = { image: deps.launcherImage, useEmulation: usesEmulation(kubevirt) };
  return { vmi, pod, settings, network: networkConfigOf(kubevirt) };
}
