// SPDX-License-Identifier: Apache-2.0
// Backoff for each step of a reconcile loop. A failed step is delayed, even if the step's own writes trigger the loop again immediately.
import { hash } from "node:crypto";
import type { Clock } from "@patchbay/base";
import {
  computeBackoffMs,
  type BackoffRange,
  createTokenBuckets,
  type Random,
  systemRandom,
} from "./backoff.ts";

export interface Step {
  /** Object of the step, for example the UID of a VMI. `forget` resets all steps of a scope. */
  readonly scope: string;
  /** Name of the step, for example `attachDevice` with the name of a NIC. Must be the same at each attempt. */
  readonly name: string;
  /** Inputs of the step, for example the spec's generation. Must not contain times or error messages, because a change ends the backoff. */
  readonly inputs: string;
}

export interface Failure<T> {
  /** Error code. A changed code restarts the backoff. A changed message does not, because it may contain a time or a new MAC each time. */
  readonly code: string;
  readonly summary: T;
  /** Minimum delay, in milliseconds, for failures that only a change can resolve. Default: 0. */
  readonly minDelayMs?: number;
}

export interface DelayedStep<T> {
  readonly summary: T;
  readonly pauseMs: number;
  readonly failures: number;
}

/** Delays of failed steps. The delays are lost when the process restarts. */
export interface StepBackoff<T> {
  /** Records a failure. Returns the delay before the next attempt, in milliseconds. */
  fail(step: Step, failure: Failure<T>): number;
  /** Returns the delay of a step. Returns undefined if the step may run now. */
  findDelay(step: Step): DelayedStep<T> | undefined;
  /** Resets a step. The next failure counts as the first failure. */
  succeed(step: Pick<Step, "scope" | "name">): void;
  retain(scope: string, names: readonly string[]): void;
  forget(scope: string): void;
}

export interface StepBackoffOptions {
  readonly clock: Clock;
  /** Range of delays. Default: from 1 s to 60 s, doubled at each failure, with 20 % jitter. */
  readonly range?: BackoffRange;
  readonly random?: Random;
}

const DEFAULT_RANGE: BackoffRange = { firstMs: 1000, maxMs: 60_000, jitter: 0.2 };
/** Limit on how often changed inputs or error codes may restart a step's backoff. */
const CHANGE_LIMIT = { burst: 5, refillMs: 300_000 };
const STEPS_MAX = 10_000;

interface Entry<T> {
  readonly code: string;
  readonly inputsHash: string;
  readonly failures: number;
  readonly untilMs: number;
  readonly summary: T;
}

class ScopedStepBackoff<T> implements StepBackoff<T> {
  readonly #clock: Clock;
  readonly #range: BackoffRange;
  readonly #random: Random;
  readonly #changeLimit;
  readonly #entries = new Map<string, Entry<T>>();
  readonly #namesByScope = new Map<string, Set<string>>();

  constructor(options: StepBackoffOptions) {
    this.#clock = options.clock;
    this.#range = options.range ?? DEFAULT_RANGE;
    this.#random = options.random ?? systemRandom;
    this.#changeLimit = createTokenBuckets(options.clock, CHANGE_LIMIT);
  }

  fail(step: Step, { code, summary, minDelayMs = 0 }: Failure<T>): number {
    const inputsHash = hashInputs(step);
    const previous = this.#entries.get(stepId(step));
    const hasChanged = previous?.code !== code || previous.inputsHash !== inputsHash;
    const isRestarted =
      previous === undefined || (hasChanged && this.#changeLimit.take(stepId(step)));
    const failures = isRestarted ? 1 : previous.failures + 1;
    const pauseMs = Math.max(minDelayMs, computeBackoffMs(failures, this.#range, this.#random));
    const untilMs = this.#clock.monotonicMs() + pauseMs;
    this.#set(step, { code, inputsHash, failures, untilMs, summary });
    return pauseMs;
  }

  findDelay(step: Step): DelayedStep<T> | undefined {
    const entry = this.#entries.get(stepId(step));
    if (entry === undefined) return undefined;
    const pauseMs = entry.untilMs - this.#clock.monotonicMs();
    const hasChanged = entry.inputsHash !== hashInputs(step) && this.#changeLimit.has(stepId(step));
    if (pauseMs <= 0 || hasChanged) return undefined;
    return { summary: entry.summary, pauseMs, failures: entry.failures };
  }

  succeed({ scope, name }: Pick<Step, "scope" | "name">): void {
    this.#entries.delete(stepId({ scope, name }));
    const names = this.#namesByScope.get(scope);
    names?.delete(name);
    if (names?.size === 0) this.#namesByScope.delete(scope);
  }

  retain(scope: string, names: readonly string[]): void {
    for (const name of [...(this.#namesByScope.get(scope) ?? [])]) {
      if (!names.includes(name)) this.succeed({ scope, name });
    }
  }

  forget(scope: string): void {
    for (const name of this.#namesByScope.get(scope) ?? [])
      this.#changeLimit.forget(stepId({ scope, name }));
    this.retain(scope, []);
  }

  #set(step: Step, entry: Entry<T>): void {
    this.succeed(step);
    this.#entries.set(stepId(step), entry);
    const names = this.#namesByScope.get(step.scope) ?? new Set();
    this.#namesByScope.set(step.scope, names.add(step.name));
    if (this.#entries.size > STEPS_MAX) this.#forgetOldest();
  }

  #forgetOldest(): void {
    const [oldest] = this.#entries.keys();
    if (oldest === undefined) return;
    const [scope, name] = JSON.parse(oldest) as [string, string];
    this.succeed({ scope, name });
  }
}

function stepId({ scope, name }: Pick<Step, "scope" | "name">): string {
  return JSON.stringify([scope, name]);
}

/** Returns a hash to store instead of the inputs, which may be as long as a spec. */
function hashInputs({ inputs }: Step): string {
  return hash("sha256", inputs, "base64");
}

/** Creates the backoff of steps. A changed error code or changed inputs restart a step's backoff, as often as CHANGE_LIMIT permits. */
export function createStepBackoff<T>(options: StepBackoffOptions): StepBackoff<T> {
  return new ScopedStepBackoff<T>(options);
}
