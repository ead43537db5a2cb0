// SPDX-License-Identifier: Apache-2.0
// What the steps of one pass share.
import { isAppError, type AppError, type NodeAction, type NodeVmFacts } from "@patchbay/core";
import { keyOf, printKey } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";
import type { Session } from "../../sessions.ts";

/** One pass over one VMI. */
export interface Turn {
  readonly facts: NodeVmFacts;
  readonly session: Session;
  readonly deps: Deps;
}

/** Whether the libvirt of this VMI cannot be used at all, so that no further step makes sense. */
export function isLost(error: unknown): error is AppError {
  return isAppError(error, "LIBVIRT_CONNECTION_LOST") || isAppError(error, "LIBVIRT_TIMED_OUT");
}

/** What a failure is known by: words may differ each time. */
export function codeOf(error: unknown): string {
  return isAppError(error) ? error.code : "UNKNOWN";
}

export function logAction(action: NodeAction, turn: Turn, startedMs: number): void {
  const { vmi } = turn.facts;
  turn.deps.log.info("performed step", {
    vmi: printKey(keyOf(vmi)),
    action: action.kind,
    ...("iface" in action ? { iface: action.iface } : {}),
    durationMs: Math.round(turn.deps.clock.monotonicMs() - startedMs),
  });
}
