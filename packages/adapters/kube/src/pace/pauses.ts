// SPDX-License-Identifier: Apache-2.0
// Which steps failed and are left alone for now, and for how long? The world wakes a loop as often as it likes,
// also by what the loop itself did: it is the step that pauses, whoever asks.
import { hash } from "node:crypto";
import type { Clock } from "@patchbay/core/ports";
import { backoffMs, systemRandom, type BackoffRange, type Random } from "./backoff.ts";
import { createTokenBuckets } from "./token-buckets.ts";

/** A step of a loop. */
export interface Step {
  /** What the step is done to, for example the uid of a VMI; forgotten as a whole. */
  readonly scope: string;
  /** Which step, the same at each attempt: for example `attachDevice` and the iface's name. */
  readonly name: string;
  /** What the outcome rests on, for example the generation of the spec: no times, no words of errors. */
  readonly circumstances: string;
}

/** How a step failed. */
export interface Failure<T> {
  /** The error's code. Its words tell nothing: they may hold a time or a MAC that differs each time. */
  readonly code: string;
  /** What is to be shown while the step is left alone. */
  readonly shown: T;
  /** Shortest pause, milliseconds; for what only a change can mend. Default: none. */
  readonly atLeastMs?: number;
}

/** A step that is left alone. */
export interface Held<T> {
  readonly shown: T;
  /** How long it is still left alone, milliseconds. */
  readonly pauseMs: number;
  /** How often it has failed in a row. */
  readonly failures: number;
}

/** Steps that failed. Lost at a restart of the process, after which all are tried at once. */
export interface Pauses<T> {
  /** The step has failed: it is left alone for as long as is returned, milliseconds. */
  fail(step: Step, failure: Failure<T>): number;
  /** What holds the step; undefined: it may be tried. */
  findHeld(step: Step): Held<T> | undefined;
  /** The step has succeeded: its next failure is a first one. */
  succeed(step: Pick<Step, "scope" | "name">): void;
  /** Forgets all steps of a scope but those with these names. */
  retain(scope: string, names: readonly string[]): void;
  /** Forgets all steps of a scope. */
  forget(scope: string): void;
}

/** What pauses work with. */
export interface PauseOptions {
  readonly clock: Clock;
  /** Default: 1 s, doubled at each failure up to a minute, a fifth of it random. */
  readonly range?: BackoffRange;
  readonly random?: Random;
}

const RANGE: BackoffRange = { firstMs: 1000, maxMs: 60_000, jitter: 0.2 };
/**
 * How often news lets a step begin anew; after that pauses grow whatever is new. A person who mends a spec never
 * gets there; a daemon that answers otherwise each time does at once.
 */
const NEWS = { burst: 5, refillMs: 300_000 };
/** Most steps that are remembered; the one that failed longest ago is forgotten first. */
const STEPS_MAX = 10_000;

interface Entry<T> {
  readonly code: string;
  readonly circumstances: string;
  readonly failures: number;
  readonly untilMs: number;
  readonly shown: T;
}

class StepPauses<T> implements Pauses<T> {
  readonly #clock: Clock;
  readonly #range: BackoffRange;
  readonly #random: Random;
  readonly #news;
  /** By step, the one that failed last at the end. */
  readonly #entries = new Map<string, Entry<T>>();
  readonly #namesOf = new Map<string, Set<string>>();

  constructor(options: PauseOptions) {
    this.#clock = options.clock;
    this.#range = options.range ?? RANGE;
    this.#random = options.random ?? systemRandom;
    this.#news = createTokenBuckets(options.clock, NEWS);
  }

  fail(step: Step, { code, shown, atLeastMs = 0 }: Failure<T>): number {
    const circumstances = digestOf(step);
    const last = this.#entries.get(idOf(step));
    const isNews = last?.code !== code || last.circumstances !== circumstances;
    const beginsAnew = last === undefined || (isNews && this.#news.take(idOf(step)));
    const failures = beginsAnew ? 1 : last.failures + 1;
    const pauseMs = Math.max(atLeastMs, backoffMs(failures, this.#range, this.#random));
    const untilMs = this.#clock.monotonicMs() + pauseMs;
    this.#set(step, { code, circumstances, failures, untilMs, shown });
    return pauseMs;
  }

  findHeld(step: Step): Held<T> | undefined {
    const entry = this.#entries.get(idOf(step));
    if (entry === undefined) return undefined;
    const pauseMs = entry.untilMs - this.#clock.monotonicMs();
    const isNews = entry.circumstances !== digestOf(step) && this.#news.has(idOf(step));
    if (pauseMs <= 0 || isNews) return undefined;
    return { shown: entry.shown, pauseMs, failures: entry.failures };
  }

  succeed({ scope, name }: Pick<Step, "scope" | "name">): void {
    this.#entries.delete(idOf({ scope, name }));
    const names = this.#namesOf.get(scope);
    names?.delete(name);
    if (names?.size === 0) this.#namesOf.delete(scope);
  }

  retain(scope: string, names: readonly string[]): void {
    for (const name of [...(this.#namesOf.get(scope) ?? [])]) {
      if (!names.includes(name)) this.succeed({ scope, name });
    }
  }

  forget(scope: string): void {
    for (const name of this.#namesOf.get(scope) ?? []) this.#news.forget(idOf({ scope, name }));
    this.retain(scope, []);
  }

  #set(step: Step, entry: Entry<T>): void {
    this.succeed(step); // behind the others
    this.#entries.set(idOf(step), entry);
    const names = this.#namesOf.get(step.scope) ?? new Set();
    this.#namesOf.set(step.scope, names.add(step.name));
    if (this.#entries.size > STEPS_MAX) this.#forgetOldest();
  }

  #forgetOldest(): void {
    const [oldest] = this.#entries.keys();
    if (oldest === undefined) return;
    const [scope, name] = JSON.parse(oldest) as [string, string]; // as `idOf` made it
    this.succeed({ scope, name });
  }
}

function idOf({ scope, name }: Pick<Step, "scope" | "name">): string {
  return JSON.stringify([scope, name]);
}

/** Circumstances may be as long as a spec; what is kept is not. */
function digestOf({ circumstances }: Step): string {
  return hash("sha256", circumstances, "base64");
}

/**
 * Pauses that grow while a step fails with the same code under the same circumstances. Another code or other
 * circumstances are news: the step may be tried at once and its pauses begin anew, a few times; then news is none.
 */
export function createPauses<T>(options: PauseOptions): Pauses<T> {
  return new StepPauses<T>(options);
}
