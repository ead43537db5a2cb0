// SPDX-License-Identifier: Apache-2.0
// Makes launcher pods, and writes their annotations; each may be repeated.
import {
  PODS,
  type Pod,
  type VirtualMachineInstance,
  type JsonPatchOperation,
} from "@patchbay/api";
import { AppError, isAppError, isControlledBy, pointerToken, versionTest } from "@patchbay/core";
import { keyOf, printKey } from "@patchbay/kube";
import type { Deps } from "../deps.ts";

/** The cache may be behind; then the pod is looked at when the watch tells of it. */
async function isOwnThere(vmi: VirtualMachineInstance, pod: Pod, deps: Deps): Promise<boolean> {
  const there = await deps.store.find(PODS, keyOf(pod));
  return there === undefined || isControlledBy(there, vmi);
}

/** @throws AppError with CONTROLLER_LAUNCHER_NAME_TAKEN when a pod of that name is not the VMI's. */
export async function createLauncher(
  pod: Pod,
  vmi: VirtualMachineInstance,
  deps: Deps,
): Promise<void> {
  const object = printKey(keyOf(pod));
  try {
    deps.ownWrites.note(await deps.store.create(PODS, pod));
    deps.log.info("created launcher pod", { pod: object });
  } catch (error) {
    if (!isAppError(error, "KUBE_ALREADY_EXISTS")) throw error;
    if (!(await isOwnThere(vmi, pod, deps)))
      throw new AppError("CONTROLLER_LAUNCHER_NAME_TAKEN", { object });
  }
}

/** Writes one of the pod's annotations, by what it said. */
export async function patchAnnotation(
  pod: Pod,
  { annotation, to }: { readonly annotation: string; readonly to: string },
  deps: Deps,
): Promise<void> {
  const path = `/metadata/annotations/${pointerToken(annotation)}`;
  const from = pod.metadata.annotations?.[annotation];
  const operations: readonly JsonPatchOperation[] = [
    from === undefined ? versionTest(pod) : { op: "test", path, value: from },
    { op: "add", path, value: to },
  ];
  deps.ownWrites.note(await deps.store.patch(PODS, keyOf(pod), { type: "json", operations }));
}
