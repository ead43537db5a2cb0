// SPDX-License-Identifier: Apache-2.0
// What the steps of one pass share.
import {
  isAppError,
  type AppError,
  type NodeAction,
  type NodeRole,
  type NodeVmFacts,
  type Hindrance,
} from "@patchbay/core";
import { keyOf, printKey, type FailedStep, type Step } from "@patchbay/kube";
import type { LauncherPod } from "@patchbay/core/ports";
import type { Deps } from "../../../deps.ts";
import type { Session } from "../../../sessions/sessions.ts";

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

/** What failed, or waits, and what is told of it. */
export type FailedNodeStep = FailedStep<NodeStep, Hindrance>;

/** A step that is left alone for a growing time when it fails. */
export interface NodeStep extends Step {
  /** Ifaces that hear of its failure; with one alone, what comes later for the same iface rests on it. */
  readonly ifaces: readonly string[];
  /** Whether it is a call on a device of the domain: another one, while the domain is busy or lost, would fare no better. */
  readonly isOnDevice: boolean;
  readonly perform: () => Promise<void>;
  /** What is told of a failure. */
  readonly explain: (error: unknown) => Hindrance;
  /** Puts a failure into the log. */
  readonly log: (failed: FailedNodeStep) => void;
  /** What it waits for, untried; undefined: nothing. */
  readonly wait?: () =>
    | { readonly shown: Hindrance; readonly pauseMs: number | undefined }
    | undefined;
}
