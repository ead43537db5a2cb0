// SPDX-License-Identifier: Apache-2.0
import type { VirtualMachineInstance } from "@patchbay/api";
import { isAppError, type AppError } from "@patchbay/core";
import { done, keyOf, printKey, type Next } from "@patchbay/kube";
import type { LauncherPod } from "@patchbay/core/ports";
import type { Deps } from "../../deps.ts";
import { PASS_REFILL_MS } from "../../pace.ts";
import { reportFailure } from "./report.ts";

/** Errors of the launcher: its own, and those of the CRI, libvirt, the domain, the pod's links and the OS. */
const OF_LAUNCHER = /^(?:LAUNCHER|CRI|LIBVIRT|DOMAIN|PODNET|OS)_/;

function isOfLauncher(error: unknown): error is AppError {
  return isAppError(error) && OF_LAUNCHER.test(error.code);
}

/** Milliseconds to wait because the launcher backs off or the VMI used up its passes; undefined when a pass may run. */
export function heldBack(
  vmi: VirtualMachineInstance,
  pod: LauncherPod,
  { passes, sessions }: Pick<Deps, "passes" | "sessions">,
): number | undefined {
  const pauseMs = sessions.pauseMs(pod);
  if (pauseMs > 0) return pauseMs;
  return passes.take(vmi) ? undefined : PASS_REFILL_MS;
}

export function noteSuccess({ metadata }: VirtualMachineInstance, { failures }: Deps): void {
  failures.delete(metadata.uid ?? "");
}

/** Reports why a launcher cannot be used, and rethrows, so that the queue backs off. */
export async function giveWay(
  vmi: VirtualMachineInstance,
  error: unknown,
  deps: Deps,
): Promise<Next> {
  if (!isOfLauncher(error)) throw error;
  if (error.code !== "LAUNCHER_UNREACHABLE") {
    const { uid = "" } = vmi.metadata;
    const failures = (deps.failures.get(uid) ?? 0) + 1;
    deps.failures.set(uid, failures);
    await reportFailure(vmi, { error, failures }, deps);
    throw error;
  }
  await reportFailure(vmi, { error, failures: 0 }, deps);
  // The launcher is not there yet or is gone, and the watch on its socket wakes this key. When the socket exists but nobody
  // listens on it, the loop gets no event, so those errors are rethrown above.
  deps.log.debug("launcher is not reachable", { vmi: printKey(keyOf(vmi)), reason: error.message });
  return done();
}
