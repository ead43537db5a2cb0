// SPDX-License-Identifier: Apache-2.0
import type { VirtualMachineInstance } from "@patchbay/api";
import type { LauncherPod } from "@patchbay/core/ports";
import type { Deps } from "./deps.ts";
import { forgetVmi } from "./memory.ts";

function forgetPod(pod: LauncherPod, deps: Deps): void {
  const { sessions, guestHooks, guestServers, addressStore, log } = deps;
  sessions.close(pod);
  guestHooks.forget(pod);
  const ending = Promise.all([guestServers.stop(pod.uid), addressStore.forgetPod(pod.uid)]);
  ending.catch((err: unknown) => {
    log.warn("leftovers of a pod cannot be removed", { uid: pod.uid, err });
  });
}

/** Records the current launcher of a VMI, and releases the previous one: its guest has left this node or never arrived. */
export function keepLauncher(
  { metadata }: VirtualMachineInstance,
  launcher: LauncherPod | undefined,
  deps: Deps,
): void {
  const { uid = "" } = metadata;
  const known = deps.knownLaunchers.get(uid);
  if (known !== undefined && known.uid !== launcher?.uid) {
    forgetPod(known, deps);
    deps.knownLaunchers.delete(uid);
    deps.moves.forget(uid);
  }
  if (launcher !== undefined) deps.knownLaunchers.set(uid, launcher);
}

/** Releases everything of a VMI that was deleted or has left this node. */
export function forgetNodeVm(vmi: VirtualMachineInstance, deps: Deps): void {
  keepLauncher(vmi, undefined, deps);
  const { uid = "" } = vmi.metadata;
  deps.moves.forget(uid);
  forgetVmi(uid, deps);
}
