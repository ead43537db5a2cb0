// SPDX-License-Identifier: Apache-2.0
// What happens to a step that fails: it is left alone for a time that grows, and what held it up is told meanwhile.
import { isAppError, leastPauseMs, type Hindrance } from "@patchbay/core";
import type { Step } from "@patchbay/kube";
import type { Turn } from "./turn.ts";

/** Why a step was not done. */
export interface Obstacle {
  readonly hindrance: Hindrance;
  /** Milliseconds until it may be tried again; absent: only an event helps. */
  readonly pauseMs: number | undefined;
  /** What was thrown; absent where nothing was tried. */
  readonly error?: unknown;
}

/** A step, and the words for its failure. */
export interface Fallible extends Step {
  /** What is told of a failure. */
  readonly explain: (error: unknown) => Hindrance;
}

/** What a failure is known by: words may differ each time. */
function codeOf(error: unknown): string {
  return isAppError(error) ? error.code : "UNKNOWN";
}

/** What holds the step up since it failed a moment ago; undefined: it may be tried. */
export function findHeld(step: Step, { deps }: Turn): Obstacle | undefined {
  const held = deps.steps.findHeld(step);
  return held === undefined ? undefined : { hindrance: held.shown, pauseMs: held.pauseMs };
}

/** Notes that the step failed, or would have failed, with this error. */
export function putOff(step: Fallible, error: unknown, { deps }: Turn): Obstacle {
  const hindrance = step.explain(error);
  const failure = { code: codeOf(error), shown: hindrance, atLeastMs: leastPauseMs(error) };
  return { hindrance, pauseMs: deps.steps.fail(step, failure), error };
}

/** Performs the step; undefined when that succeeded. */
export async function tryStep(
  step: Fallible,
  perform: () => Promise<void>,
  turn: Turn,
): Promise<Obstacle | undefined> {
  try {
    await perform();
  } catch (error) {
    return putOff(step, error, turn);
  }
  turn.deps.steps.succeed(step);
  return undefined;
}
