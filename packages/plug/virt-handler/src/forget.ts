// SPDX-License-Identifier: Apache-2.0
// Lets go of what belongs to a VMI or to a pod of it that is not this node's any more.
import type { VirtualMachineInstance } from "@patchbay/api";
import type { LauncherPod } from "@patchbay/core/ports";
import type { Deps } from "./deps.ts";
import { forgetVmi } from "./memory.ts";

/** The pod is gone, or is not needed any more. */
function forgetPod(pod: LauncherPod, deps: Deps): void {
  const { sessions, guestHooks, guestServers, addressStore, log } = deps;
  sessions.close(pod);
  guestHooks.forget(pod);
  const ending = Promise.all([guestServers.stop(pod.uid), addressStore.forgetPod(pod.uid)]);
  ending.catch((err: unknown) => {
    log.warn("leftovers of a pod cannot be removed", { uid: pod.uid, err });
  });
}

/** Remembers the launcher of a VMI on this node; what there was of another one is let go: its guest has left, or never came. */
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

/** Forgets what belonged to a VMI that is gone, or has left this node. */
export function forgetNodeVm(vmi: VirtualMachineInstance, deps: Deps): void {
  keepLauncher(vmi, undefined, deps);
  const { uid = "" } = vmi.metadata;
  deps.moves.forget(uid);
  forgetVmi(uid, deps);
}
