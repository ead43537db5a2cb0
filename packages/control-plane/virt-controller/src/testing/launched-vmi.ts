// SPDX-License-Identifier: Apache-2.0
// A VMI and its launcher pod, for single passes.
import { names, type VirtualMachineInstance, type VmiStatus } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import { launcherPodName } from "@patchbay/core/migration";
import { aPod, aVmi } from "@patchbay/support";

export const LAUNCHER = launcherPodName(aVmi());
/** Labels of the VMI after its pod was scheduled. */
export const ON_NODE1 = { [names.NODE_NAME_LABEL]: "node1" };
/** Status of a VMI whose pod runs. */
export const STARTED: VmiStatus = { phase: "Scheduled", activePods: { "pod-uid": "node1" } };

export function vmiWith(
  metadata: Partial<VirtualMachineInstance["metadata"]>,
  sketch: Parameters<typeof aVmi>[0] = {},
): VirtualMachineInstance {
  const vmi = aVmi(sketch);
  return { ...vmi, metadata: { ...vmi.metadata, ...metadata } };
}

/** Builds the VMI's launcher pod, or a pod of another owner with the same name. */
export function launcher(
  annotations: Readonly<Record<string, string>> = {},
  ownerUid = "vmi-uid",
): Pod {
  const pod = aPod(annotations);
  const kind = { apiVersion: "kubevirt.io/v1", kind: "VirtualMachineInstance", name: "vm1" };
  const ownerReferences = [{ ...kind, uid: ownerUid, controller: true }];
  return { ...pod, metadata: { ...pod.metadata, name: LAUNCHER, ownerReferences } };
}
