// SPDX-License-Identifier: Apache-2.0
// Which key is to be reconciled next? Semantics of client-go's workqueue: a key waits at most once, is worked on
// at most once at a time, and is queued again when it was added while it was worked on. Unlike there, a key that
// failed is not run by whatever wakes it: what fails tends to make the events that wake it.
import type { KubeObject } from "@patchbay/api";
import { messageOf, type QueueFigures } from "@patchbay/core";
import type { Clock } from "@patchbay/core/ports";
import type { BackoffRange, Random } from "../pace/backoff.ts";
import { createPauses, type Pauses, type Step } from "../pace/pauses.ts";
import { createTokenBuckets, type TokenBuckets } from "../pace/token-buckets.ts";
import { FairLine } from "./fair-line.ts";

/** How much is worked on at once, and how long what failed is left alone. */
export interface QueueOptions {
  readonly clock: Clock;
  /** How many keys may be worked on at once; default 1. */
  readonly concurrency?: number;
  /** Wait after failures of one key; default 100 ms, doubled up to 60 s, half of it random. */
  readonly backoff?: BackoffRange;
  readonly random?: Random;
  /**
   * What the outcome of a key rests on and the loop does not write, for example the generation of the spec. When
   * it changes, a key that failed is not left alone any longer. Default: nothing is known to matter.
   */
  readonly circumstancesOf?: (key: string) => string;
  /** Whose a key is; groups take turns, so that the many keys of one keep nobody else waiting. Default: all are of one. */
  readonly groupOf?: (key: string) => string;
}

/** What is wanted of an object, in short: which one it is, the generation of its spec, and whether it is to go. */
export function specVersionOf(object: KubeObject | undefined): string {
  const { uid, generation, deletionTimestamp } = object?.metadata ?? {};
  return JSON.stringify([uid, generation, deletionTimestamp]);
}

/** How a key failed. */
export interface KeyFailure {
  /** The error's code. */
  readonly code: string;
  /** Try again no sooner than this by itself, milliseconds; a wake counts nevertheless. Default: none. */
  readonly retryAtLeastMs?: number;
}

const BACKOFF: BackoffRange = { firstMs: 100, maxMs: 60_000, jitter: 0.5 };
/**
 * How often something that wakes a key ends its pause early: what the failed pass waited for may have come. A loop
 * that wakes itself has used them up at once.
 */
const EARLY_WAKES = { burst: 5, refillMs: 60_000 };

/** A key that is worked on. */
interface Work {
  readonly sinceMs: number;
  /** For how long it had waited. */
  readonly waitedMs: number;
}

const MS_PER_SECOND = 1000;

/** A timer of one key. */
interface Delay {
  readonly dueMs: number;
  readonly abort: AbortController;
}

/**
 * Keys to work on, first in, first out within a group. What was queued before anybody took a key is a backlog: all
 * objects that there are, at a start. It takes turns with what changes since, which waits for one pass at most, not for
 * thousands.
 */
export class Queue {
  /** How many keys may be worked on at once. */
  readonly concurrency: number;
  readonly #clock: Clock;
  readonly #circumstancesOf: (key: string) => string;
  readonly #pauses: Pauses<undefined>;
  readonly #earlyWakes: TokenBuckets;
  readonly #waiting: FairLine;
  readonly #backlog: FairLine;
  /** Since when each key waits, milliseconds. */
  readonly #waitingSince = new Map<string, number>();
  readonly #working = new Map<string, Work>();
  /** Added while being worked on. */
  readonly #dirty = new Set<string>();
  readonly #delayed = new Map<string, Delay>();
  readonly #retries = new Map<string, Delay>();
  readonly #takers: ((key: string) => void)[] = [];
  #isStarted = false;
  #isTurnOfBacklog = false;
  #adds = 0;
  #retried = 0;
  #isClosed = false;

  constructor(options: QueueOptions) {
    this.concurrency = options.concurrency ?? 1;
    this.#clock = options.clock;
    const groupOf = options.groupOf ?? ((): string => "");
    this.#waiting = new FairLine(groupOf);
    this.#backlog = new FairLine(groupOf);
    this.#circumstancesOf = options.circumstancesOf ?? (() => "");
    const { clock, random, backoff: range = BACKOFF } = options;
    this.#pauses = createPauses({ clock, range, ...(random !== undefined && { random }) });
    this.#earlyWakes = createTokenBuckets(clock, EARLY_WAKES);
  }

  /** Number of keys that wait to be taken. */
  get length(): number {
    return this.#waiting.size + this.#backlog.size;
  }

  /** What it looks like now; nothing is counted for it that is not counted anyway. */
  figures(): QueueFigures {
    const nowMs = this.#clock.monotonicMs();
    const seconds = [...this.#working.values()].map(
      ({ sinceMs }) => (nowMs - sinceMs) / MS_PER_SECOND,
    );
    return {
      depth: this.length,
      adds: this.#adds,
      retries: this.#retried,
      unfinishedSeconds: seconds.reduce((sum, one) => sum + one, 0),
      longestRunningSeconds: Math.max(0, ...seconds),
    };
  }

  /** For how long a key that is worked on had waited, milliseconds. */
  waitedMs(key: string): number {
    return this.#working.get(key)?.waitedMs ?? 0;
  }

  /** The keys that wait to be taken, in order. */
  waiting(): readonly string[] {
    return [...this.#waiting.list(), ...this.#backlog.list()];
  }

  /**
   * Queues the key, unless it waits already. One that failed is left alone until its pause is over, but for a few
   * early wakes, and unless its circumstances have changed.
   */
  add(key: string): void {
    if (this.#isClosed) return;
    if (this.#working.has(key)) {
      this.#dirty.add(key);
      return;
    }
    const held = this.#isWaiting(key) ? undefined : this.#pauses.findHeld(this.#stepOf(key));
    if (held === undefined || this.#earlyWakes.take(key)) this.#enqueue(key);
    else this.#delay(this.#retries, key, held.pauseMs);
  }

  /** Queues the key after `ms`; of several times the earliest counts. */
  addAfter(key: string, ms: number): void {
    this.#delay(this.#delayed, key, ms);
  }

  /**
   * Leaves the key alone for a pause that grows with its failures in a row of the same code, and queues it then;
   * the wait in milliseconds.
   */
  retry(key: string, { code, retryAtLeastMs = 0 }: KeyFailure): number {
    const pauseMs = this.#pauses.fail(this.#stepOf(key), { code, shown: undefined });
    const waitMs = Math.max(pauseMs, retryAtLeastMs);
    this.#retried += 1;
    this.#cancel(this.#retries, key);
    this.#delay(this.#retries, key, waitMs);
    return waitMs;
  }

  /** Failures in a row of a key that is left alone. */
  failuresOf(key: string): number {
    return this.#pauses.findHeld(this.#stepOf(key))?.failures ?? 0;
  }

  /** Forgets the key's failures and their retry. */
  forget(key: string): void {
    this.#pauses.succeed(this.#stepOf(key));
    this.#cancel(this.#retries, key);
  }

  /** The next key, which is then being worked on until `done`; rejects with the signal's reason. */
  take(signal: AbortSignal): Promise<string> {
    if (signal.aborted) return Promise.reject(new Error(messageOf(signal.reason)));
    this.#isStarted = true;
    const first = this.#takeFirst();
    if (first !== undefined) {
      this.#begin(first);
      return Promise.resolve(first);
    }
    return this.#waitForKey(signal);
  }

  /** Ends the work on a key that was taken. */
  done(key: string): void {
    this.#working.delete(key);
    if (this.#dirty.delete(key)) this.add(key);
  }

  /** Ends all timers; nothing is queued any more. */
  close(): void {
    this.#isClosed = true;
    for (const delays of [this.#delayed, this.#retries]) {
      for (const delay of delays.values()) delay.abort.abort();
      delays.clear();
    }
  }

  /** The pass over the key, as a step that can fail. */
  #stepOf(key: string): Step {
    return { scope: key, name: "pass", circumstances: this.#circumstancesOf(key) };
  }

  #isWaiting(key: string): boolean {
    return this.#waiting.has(key) || this.#backlog.has(key);
  }

  #takeFirst(): string | undefined {
    const [first, second] = this.#isTurnOfBacklog
      ? [this.#backlog, this.#waiting]
      : [this.#waiting, this.#backlog];
    this.#isTurnOfBacklog = !this.#isTurnOfBacklog;
    return first.take() ?? second.take();
  }

  #enqueue(key: string): void {
    const isNew = !this.#isWaiting(key);
    const taker = isNew ? this.#takers.shift() : undefined;
    if (isNew) this.#adds += 1;
    if (taker !== undefined) {
      this.#begin(key);
      taker(key);
      return;
    }
    if (isNew) this.#waitingSince.set(key, this.#clock.monotonicMs());
    if (!this.#isStarted) this.#backlog.add(key);
    else if (isNew || this.#backlog.remove(key)) this.#waiting.add(key);
  }

  #begin(key: string): void {
    const nowMs = this.#clock.monotonicMs();
    const waitedMs = nowMs - (this.#waitingSince.get(key) ?? nowMs);
    this.#waitingSince.delete(key);
    this.#working.set(key, { sinceMs: nowMs, waitedMs });
  }

  #waitForKey(signal: AbortSignal): Promise<string> {
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    const taker = (key: string): void => {
      signal.removeEventListener("abort", refuse);
      resolve(key);
    };
    const refuse = (): void => {
      this.#takers.splice(this.#takers.indexOf(taker), 1);
      reject(new Error(messageOf(signal.reason)));
    };
    signal.addEventListener("abort", refuse, { once: true });
    this.#takers.push(taker);
    return promise;
  }

  #delay(delays: Map<string, Delay>, key: string, ms: number): void {
    if (this.#isClosed) return;
    const dueMs = this.#clock.monotonicMs() + ms;
    const earlier = delays.get(key);
    if (earlier !== undefined && earlier.dueMs <= dueMs) return;
    earlier?.abort.abort();
    const delay = { dueMs, abort: new AbortController() };
    delays.set(key, delay);
    this.#clock.sleep(ms, delay.abort.signal).then(
      () => {
        delays.delete(key);
        // A retry's pause is over by the timer that ends now, whatever a fraction of a millisecond says.
        if (delays === this.#retries && !this.#working.has(key)) this.#enqueue(key);
        else this.add(key);
      },
      () => undefined, // cancelled
    );
  }

  #cancel(delays: Map<string, Delay>, key: string): void {
    delays.get(key)?.abort.abort();
    delays.delete(key);
  }
}

/** A queue of keys. */
export function createQueue(options: QueueOptions): Queue {
  return new Queue(options);
}
