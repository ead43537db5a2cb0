// SPDX-License-Identifier: Apache-2.0
// How are the steps of a plan performed? In order; one that fails is left alone for a growing time, is told meanwhile, and
// keeps only what rests on it from being done. The same in each loop of each service.
import { leastPauseMs } from "@patchbay/core";
import type { Pauses, Step } from "../pace/pauses.ts";

/** Why a step is not done: it has failed now or a while ago, or waits for something else. */
export interface FailedStep<A, T> {
  readonly action: A;
  /** What is told of it meanwhile. */
  readonly shown: T;
  /** Milliseconds until it may be tried again; undefined: only a change helps. */
  readonly pauseMs: number | undefined;
  /** What it threw; absent where it was not tried. */
  readonly error?: unknown;
}

/** What a failure comes to. */
export interface Explanation<T> {
  /** By what failures of a step are told apart; words may differ each time. */
  readonly code: string;
  readonly shown: T;
}

/** What an action waits for, untried; `skip`: it rests on a step that failed, which is told already. */
export type Waiting<A, T> = "skip" | Omit<FailedStep<A, T>, "action" | "error">;

/** What a loop says of its own steps. */
export interface StepRules<A, T> {
  readonly pauses: Pauses<T>;
  /** By what a failure of the action is remembered; undefined: it is never left alone, and its failure ends the plan. */
  readonly stepOf: (action: A) => Step | undefined;
  /** Undefined: that says nothing of the step (a lost race, a server that is away, a fault of ours): it is thrown in the end. What this throws ends the plan. */
  readonly explain: (action: A, error: unknown) => Explanation<T> | undefined;
  /** Whether the action has to wait, after what has failed in this run; absent: no action rests on another. */
  readonly wait?: (action: A, failed: readonly FailedStep<A, T>[]) => Waiting<A, T> | undefined;
  /** Hears of each failure as it happens, for log and events. */
  readonly tell?: (failed: FailedStep<A, T>) => void;
}

/** What came of a plan. */
export interface StepsResult<A, T> {
  readonly done: readonly A[];
  /** Also of steps that are left alone still, and of those that wait. */
  readonly failed: readonly FailedStep<A, T>[];
  /** When the first of them may be tried again, milliseconds; undefined: none comes again by itself. */
  readonly againMs: number | undefined;
  /** What says nothing of the steps, to be thrown after the report. */
  readonly thrown: readonly unknown[];
}

/** Of several failures of one step the first tells what they are. */
export function firstErrorOf(error: unknown): unknown {
  return error instanceof AggregateError ? error.errors[0] : error;
}

class Run<A, T> {
  readonly done: A[] = [];
  readonly failed: FailedStep<A, T>[] = [];
  readonly thrown: unknown[] = [];
  readonly #perform: (action: A) => Promise<void>;
  readonly #rules: StepRules<A, T>;

  constructor(perform: (action: A) => Promise<void>, rules: StepRules<A, T>) {
    this.#perform = perform;
    this.#rules = rules;
  }

  async take(action: A): Promise<void> {
    const waiting = this.#rules.wait?.(action, this.failed) ?? this.#held(action);
    if (waiting === "skip") return;
    if (waiting === undefined) await this.#try(action);
    else this.failed.push({ action, ...waiting });
  }

  #held(action: A): Waiting<A, T> | undefined {
    const step = this.#rules.stepOf(action);
    const held = step && this.#rules.pauses.findHeld(step);
    return held && { shown: held.shown, pauseMs: held.pauseMs };
  }

  async #try(action: A): Promise<void> {
    const { pauses, stepOf } = this.#rules;
    const step = stepOf(action);
    try {
      await this.#perform(action);
    } catch (error) {
      if (step === undefined) throw error;
      this.#fail(action, step, error);
      return;
    }
    if (step !== undefined) pauses.succeed(step);
    this.done.push(action);
  }

  #fail(action: A, step: Step, error: unknown): void {
    const { pauses, explain, tell } = this.#rules;
    const explained = explain(action, error);
    if (explained === undefined) {
      this.thrown.push(error);
      return;
    }
    const atLeastMs = leastPauseMs(firstErrorOf(error));
    const pauseMs = pauses.fail(step, { ...explained, atLeastMs });
    const failed = { action, shown: explained.shown, pauseMs, error };
    this.failed.push(failed);
    tell?.(failed);
  }
}

/**
 * Performs the plan to its end, but for what waits.
 * @throws what an action without a step threw, and what `explain` throws, at once
 */
export async function runSteps<A, T>(
  plan: readonly A[],
  perform: (action: A) => Promise<void>,
  rules: StepRules<A, T>,
): Promise<StepsResult<A, T>> {
  const run = new Run(perform, rules);
  for (const action of plan) await run.take(action);
  const { done, failed, thrown } = run;
  const againMs = earliest(failed.map(({ pauseMs }) => pauseMs));
  return { done, failed, againMs, thrown };
}

/** The earliest of times to look again, milliseconds; undefined: none. */
export function earliest(times: readonly (number | undefined)[]): number | undefined {
  const known = times.filter((ms) => ms !== undefined);
  return known.length === 0 ? undefined : Math.min(...known);
}
