// SPDX-License-Identifier: Apache-2.0
// Defines and starts the domain: one step, which is left alone for a growing time when it fails. libvirt's own events
// of the attempt wake the loop.
import {
  domainNameOf,
  guestHindranceOf,
  leastPauseMs,
  type AppError,
  type Hindrance,
  type NodeAction,
} from "@patchbay/core";
import { keyOf, printKey } from "@patchbay/kube";
import { codeOf, isLost, logAction, type Turn } from "./turn.ts";

/** A step on the domain as a whole. */
export type DomainAction = Exclude<NodeAction, { iface: string }>;

/** What came of the start. */
export interface StartOutcome {
  readonly hasStarted: boolean;
  /** Why there is no guest. */
  readonly guest?: Hindrance;
  readonly pauseMs?: number;
  /** What ended the connection to libvirt. */
  readonly lost?: AppError;
}

/** Name of the step. */
export const START_STEP = "startGuest";

const NO_START: StartOutcome = { hasStarted: false };

async function perform(action: DomainAction, { facts, session }: Turn): Promise<void> {
  switch (action.kind) {
    case "defineDomain":
      await session.connection.defineDomain(action.xml);
      return;
    case "startDomain":
      await session.connection.startDomain(domainNameOf(facts.vmi));
  }
}

/** Takes the steps, unless they failed a moment ago under the same circumstances. */
export async function startGuest(
  actions: readonly DomainAction[],
  turn: Turn,
): Promise<StartOutcome> {
  if (actions.length === 0) return NO_START;
  const { deps, facts } = turn;
  const scope = facts.vmi.metadata.uid ?? "";
  const step = { scope, name: START_STEP, circumstances: JSON.stringify(actions) };
  const held = deps.steps.findHeld(step);
  if (held !== undefined) return { ...NO_START, guest: held.shown, pauseMs: held.pauseMs };
  try {
    for (const action of actions) {
      const startedMs = deps.clock.monotonicMs();
      await perform(action, turn);
      logAction(action, turn, startedMs);
    }
    deps.steps.succeed(step);
    return { hasStarted: true };
  } catch (error) {
    const guest = guestHindranceOf(facts.vmi, "GuestNotStarted", error);
    const failure = { code: codeOf(error), shown: guest, atLeastMs: leastPauseMs(error) };
    const pauseMs = deps.steps.fail(step, failure);
    const vmi = printKey(keyOf(facts.vmi));
    deps.log.warn("the guest cannot be started", {
      ...{ vmi, attempt: guest.attempts, retryMs: pauseMs, err: error },
    });
    return { ...NO_START, guest, pauseMs, ...(isLost(error) ? { lost: error } : {}) };
  }
}
