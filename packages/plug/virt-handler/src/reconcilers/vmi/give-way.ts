// SPDX-License-Identifier: Apache-2.0
// When a VM is left alone, whatever its libvirt does to wake us: before a pass, and after one that its launcher failed.
import type { VirtualMachineInstance } from "@patchbay/api";
import { isAppError, type AppError } from "@patchbay/core";
import { done, keyOf, printKey, type Next } from "@patchbay/kube";
import type { LauncherPod } from "@patchbay/core/ports";
import type { Deps } from "../../deps.ts";
import { PASS_REFILL_MS } from "../../pace.ts";
import { reportFailure } from "./report.ts";

/** Errors that mean this launcher cannot be worked with: its own, and those of the CRI, libvirt, its domain, the pod's links or the OS. */
const OF_LAUNCHER = /^(?:LAUNCHER|CRI|LIBVIRT|DOMAIN|PODNET|OS)_/;

function isOfLauncher(error: unknown): error is AppError {
  return isAppError(error) && OF_LAUNCHER.test(error.code);
}

/** Milliseconds for which its launcher is left alone, or the VMI has had enough passes; undefined: it may have one. */
export function heldBack(
  vmi: VirtualMachineInstance,
  pod: LauncherPod,
  { passes, sessions }: Pick<Deps, "passes" | "sessions">,
): number | undefined {
  const pauseMs = sessions.pauseMs(pod);
  if (pauseMs > 0) return pauseMs;
  return passes.take(vmi) ? undefined : PASS_REFILL_MS;
}

/** The launcher could be worked with. */
export function noteSuccess({ metadata }: VirtualMachineInstance, { failures }: Deps): void {
  failures.delete(metadata.uid ?? "");
}

/** Tells why a launcher cannot be worked with, and throws: the queue leaves the key alone for a growing time. */
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
  // Not there yet, or gone: the watch on its socket wakes this key. Of a socket at which nobody listens yet, or any
  // more, nothing tells when that changes.
  deps.log.debug("launcher is not reachable", { vmi: printKey(keyOf(vmi)), reason: error.message });
  return done();
}
