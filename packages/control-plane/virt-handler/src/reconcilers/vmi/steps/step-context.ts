// SPDX-License-Identifier: Apache-2.0
import { isAppError, type AppError } from "@patchbay/base";
import type { NodeAction, NodeVmFacts } from "@patchbay/core/vm";
import type { NodeRole } from "@patchbay/core/migration";
import type { BlockedReason } from "@patchbay/core/status";
import { keyOf, printKey, type FailedStep, type Step } from "@patchbay/kube";
import type { LauncherPod } from "@patchbay/core/interfaces";
import type { Deps } from "../../../deps.ts";
import type { Session } from "../../../sessions/sessions.ts";

export interface LauncherContext {
  readonly pod: LauncherPod;
  readonly role: NodeRole;
  readonly session: Session;
  /** Requests another pass over the VMI. */
  readonly wake: () => void;
}

export interface StepContext extends LauncherContext {
  readonly facts: NodeVmFacts;
  readonly deps: Deps;
}

export function isConnectionLost(error: unknown): error is AppError {
  return isAppError(error, "LIBVIRT_CONNECTION_LOST") || isAppError(error, "LIBVIRT_TIMED_OUT");
}

export async function performTimed(
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

export type FailedNodeStep = FailedStep<NodeStep, BlockedReason>;

export interface NodeStep extends Step {
  /** Interfaces that report the step's failure. In a pass, a step with one interface is skipped after a failed step of that interface. */
  readonly ifaces: readonly string[];
  /** Whether the step calls libvirt about a device. After a lost connection or a busy domain, later device steps fail without a call. */
  readonly isDeviceStep: boolean;
  readonly perform: () => Promise<void>;
  readonly explain: (error: unknown) => BlockedReason;
  readonly log: (failed: FailedNodeStep) => void;
  readonly findWaitReason?: () =>
    | { readonly summary: BlockedReason; readonly pauseMs: number | undefined }
    | undefined;
}
