// SPDX-License-Identifier: Apache-2.0
// Which key is to be reconciled next? Semantics of client-go's workqueue: a key waits at most once, is worked on
// at most once at a time, and is queued again when it was added while it was worked on.
import { messageOf } from "@patchbay/core";
import type { Clock } from "@patchbay/ports";
import { backoffMs, systemRandom, type BackoffRange, type Random } from "./backoff.ts";

/** Settings of a queue. */
export interface QueueOptions {
  readonly clock: Clock;
  /** How many keys may be worked on at once; default 1. */
  readonly concurrency?: number;
  /** Wait after failures of one key; default 100 ms, doubled up to 60 s, half of it random. */
  readonly backoff?: BackoffRange;
  readonly random?: Random;
}

const BACKOFF: BackoffRange = { firstMs: 100, maxMs: 60_000, jitter: 0.5 };

/** A timer of one key. */
interface Delay {
  readonly dueMs: number;
  readonly abort: AbortController;
}

/** Keys to work on, first in, first out. */
export class Queue {
  /** How many keys may be worked on at once. */
  readonly concurrency: number;
  readonly #clock: Clock;
  readonly #backoff: BackoffRange;
  readonly #random: Random;
  readonly #waiting = new Set<string>();
  readonly #working = new Set<string>();
  /** Added while being worked on. */
  readonly #dirty = new Set<string>();
  readonly #delayed = new Map<string, Delay>();
  readonly #retries = new Map<string, Delay>();
  readonly #failures = new Map<string, number>();
  readonly #takers: ((key: string) => void)[] = [];
  #isClosed = false;

  constructor(options: QueueOptions) {
    this.concurrency = options.concurrency ?? 1;
    this.#clock = options.clock;
    this.#backoff = options.backoff ?? BACKOFF;
    this.#random = options.random ?? systemRandom;
  }

  /** Number of keys that wait to be taken. */
  get length(): number {
    return this.#waiting.size;
  }

  /** Queues the key, unless it waits already. */
  add(key: string): void {
    if (this.#isClosed) return;
    if (this.#working.has(key)) {
      this.#dirty.add(key);
      return;
    }
    const taker = this.#waiting.has(key) ? undefined : this.#takers.shift();
    if (taker === undefined) this.#waiting.add(key);
    else this.#handTo(taker, key);
  }

  /** Queues the key after `ms`; of several times the earliest counts. */
  addAfter(key: string, ms: number): void {
    this.#delay(this.#delayed, key, ms);
  }

  /** Queues the key after a wait that grows with its failures in a row; the wait in milliseconds. */
  retry(key: string): number {
    const failures = (this.#failures.get(key) ?? 0) + 1;
    this.#failures.set(key, failures);
    const waitMs = backoffMs(failures, this.#backoff, this.#random);
    this.#cancel(this.#retries, key);
    this.#delay(this.#retries, key, waitMs);
    return waitMs;
  }

  /** Failures of the key in a row. */
  failuresOf(key: string): number {
    return this.#failures.get(key) ?? 0;
  }

  /** Forgets the key's failures and their retry. */
  forget(key: string): void {
    this.#failures.delete(key);
    this.#cancel(this.#retries, key);
  }

  /** The next key, which is then being worked on until `done`; rejects with the signal's reason. */
  take(signal: AbortSignal): Promise<string> {
    if (signal.aborted) return Promise.reject(new Error(messageOf(signal.reason)));
    const [first] = this.#waiting;
    if (first !== undefined) {
      this.#waiting.delete(first);
      this.#working.add(first);
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

  #handTo(taker: (key: string) => void, key: string): void {
    this.#working.add(key);
    taker(key);
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
        this.add(key);
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
