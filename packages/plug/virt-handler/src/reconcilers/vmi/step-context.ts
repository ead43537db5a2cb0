// SPDX-License-Identifier: Apache-2.0
// What the steps of one pass share.
import {
  isAppError,
  type AppError,
  type NodeAction,
  type NodeRole,
  type NodeVmFacts,
} from "@patchbay/core";
import { keyOf, printKey } from "@patchbay/kube";
import type { LauncherPod } from "@patchbay/core/ports";
import type { Deps } from "../../deps.ts";
import type { Session } from "../../sessions/sessions.ts";

/** Where a VMI is worked on. */
export interface Place {
  readonly pod: LauncherPod;
  /** What the node is to the VMI. */
  readonly role: NodeRole;
  readonly session: Session;
  /** To be called when something has changed that nobody has looked at since. */
  readonly wake: () => void;
}

/** What the steps of one pass over one VMI work on. */
export interface StepContext extends Place {
  readonly facts: NodeVmFacts;
  readonly deps: Deps;
}

/** Whether the libvirt of this VMI cannot be used at all, so that no further step makes sense. */
export function isLost(error: unknown): error is AppError {
  return isAppError(error, "LIBVIRT_CONNECTION_LOST") || isAppError(error, "LIBVIRT_TIMED_OUT");
}

/** Performs a step, and logs how long it took when it succeeded. */
export async function timed(
  action: NodeAction,
  { facts, deps }: StepContext,
  perform: () => Promise<void>,
): Promise<void> {
  const startedMs = deps.clock.monotonicMs();
  await perform();
  deps.log.info("performed step", {
    vmi: printKey(keyOf(facts.vmi)),
    action: action.kind,
    ...("iface" in action ? { iface: action.iface } : {}),
    durationMs: Math.round(deps.clock.monotonicMs() - startedMs),
  });
}
