// SPDX-License-Identifier: Apache-2.0
// Runs a loop over the keys of a work queue, with retries, logs and metrics. The queue has the semantics of client-go's
// workqueue: a key is queued at most once, processed at most once at a time, and queued again if it was added meanwhile.
// Unlike in client-go, an event does not end a failed key's delay, because the failure itself often causes the event.
import type { KubeObject } from "@patchbay/api/kubernetes";
import { messageOf, type Clock, isAppError, minRetryDelayMs, type Logger } from "@patchbay/base";
import type { QueueStats } from "@patchbay/core/metrics";
import {
  type BackoffRange,
  createTokenBuckets,
  type Random,
  type TokenBuckets,
} from "../pace/backoff.ts";
import { createStepBackoff, type StepBackoff, type Step } from "../pace/step-backoff.ts";
import type { ObjectKey } from "@patchbay/core/interfaces";
import type { EventRecorder } from "../event-recorder.ts";
import { parseKey } from "../objects/object-metadata.ts";
import type { LoopWatch } from "./loop-watch.ts";

/** A queue whose groups take turns, so that a group with many keys does not delay the others. */
export class FairQueue {
  readonly #toGroup: (key: string) => string;
  /** Keys by group, in the order in which groups take turns; no group is empty. */
  readonly #groups = new Map<string, Set<string>>();
  #size = 0;

  /** `toGroup` must be constant for a key. */
  constructor(toGroup: (key: string) => string) {
    this.#toGroup = toGroup;
  }

  get size(): number {
    return this.#size;
  }

  has(key: string): boolean {
    return this.#groups.get(this.#toGroup(key))?.has(key) === true;
  }

  /** Appends the key to its group, unless it is already queued. */
  add(key: string): void {
    if (this.has(key)) return;
    const group = this.#toGroup(key);
    const keys = this.#groups.get(group) ?? new Set();
    this.#groups.set(group, keys.add(key));
    this.#size += 1;
  }

  /** Removes and returns the next key; undefined if the queue is empty. */
  take(): string | undefined {
    for (const [group, keys] of this.#groups) {
      this.#groups.delete(group);
      for (const key of keys) {
        keys.delete(key);
        this.#size -= 1;
        // Appends the group after the others.
        if (keys.size > 0) this.#groups.set(group, keys);
        return key;
      }
    }
    return undefined;
  }

  remove(key: string): boolean {
    const group = this.#toGroup(key);
    const keys = this.#groups.get(group);
    if (keys?.delete(key) !== true) return false;
    this.#size -= 1;
    if (keys.size === 0) this.#groups.delete(group);
    return true;
  }

  list(): readonly string[] {
    return [...this.#groups.values()].flatMap((keys) => [...keys]);
  }
}

interface QueueOptions {
  readonly clock: Clock;
  /** Number of keys to process at once, by default 1. */
  readonly concurrency?: number;
  /** Delays of failed keys, by default from 100 ms, doubled up to 60 s, with 50 % jitter. */
  readonly backoff?: BackoffRange;
  readonly random?: Random;
  /** Returns inputs that the loop does not write, such as the generation. A change ends the delay of a failed key. */
  readonly readInputs?: (key: string) => string;
  /** Returns the group of a key. Groups take turns, so that the many keys of one owner do not delay others. */
  readonly toGroup?: (key: string) => string;
}

/** Identifies the specification of an object: its uid, its generation and its deletion. */
export function specVersionOf(object: KubeObject | undefined): string {
  const { uid, generation, deletionTimestamp } = object?.metadata ?? {};
  return JSON.stringify([uid, generation, deletionTimestamp]);
}

interface KeyFailure {
  readonly code: string;
  /** Minimum delay before an automatic retry, in milliseconds. An event may trigger an earlier one. By default none. */
  readonly minRetryMs?: number;
}

const BACKOFF: BackoffRange = { firstMs: 100, maxMs: 60_000, jitter: 0.5 };
/** Limit of events that end the delay of a failed key early. A loop that wakes itself soon uses them up. */
const EARLY_WAKE_LIMIT = { burst: 5, refillMs: 60_000 };

interface WorkInProgress {
  readonly sinceMs: number;
  /** Time in the queue, in milliseconds. */
  readonly waitedMs: number;
}

const MS_PER_SECOND = 1000;

interface KeyTimer {
  readonly dueMs: number;
  readonly abort: AbortController;
}

/**
 * Keys are first in, first out within a group. Keys that are queued before the first `take` are a backlog, which has
 * all objects at a start. The backlog and later changes alternate, so that a change waits for one pass instead of
 * thousands.
 */
export class Queue {
  readonly concurrency: number;
  readonly #clock: Clock;
  readonly #readInputs: (key: string) => string;
  readonly #backoff: StepBackoff<undefined>;
  readonly #earlyWakes: TokenBuckets;
  readonly #waiting: FairQueue;
  readonly #backlog: FairQueue;
  /** Times at which keys were queued, in milliseconds of the monotonic clock. */
  readonly #waitingSince = new Map<string, number>();
  readonly #working = new Map<string, WorkInProgress>();
  /** Keys that were added while they were processed. */
  readonly #dirty = new Set<string>();
  readonly #delayed = new Map<string, KeyTimer>();
  readonly #retries = new Map<string, KeyTimer>();
  readonly #takers: ((key: string) => void)[] = [];
  #isStarted = false;
  #isBacklogNext = false;
  #addCount = 0;
  #retryCount = 0;
  #isClosed = false;

  constructor(options: QueueOptions) {
    this.concurrency = options.concurrency ?? 1;
    this.#clock = options.clock;
    const toGroup = options.toGroup ?? ((): string => "");
    this.#waiting = new FairQueue(toGroup);
    this.#backlog = new FairQueue(toGroup);
    this.#readInputs = options.readInputs ?? (() => "");
    const { clock, random, backoff: range = BACKOFF } = options;
    this.#backoff = createStepBackoff({ clock, range, ...(random !== undefined && { random }) });
    this.#earlyWakes = createTokenBuckets(clock, EARLY_WAKE_LIMIT);
  }

  get length(): number {
    return this.#waiting.size + this.#backlog.size;
  }

  readStats(): QueueStats {
    const nowMs = this.#clock.monotonicMs();
    const seconds = [...this.#working.values()].map(
      ({ sinceMs }) => (nowMs - sinceMs) / MS_PER_SECOND,
    );
    return {
      depth: this.length,
      adds: this.#addCount,
      retries: this.#retryCount,
      unfinishedSeconds: seconds.reduce((sum, one) => sum + one, 0),
      longestRunningSeconds: Math.max(0, ...seconds),
    };
  }

  /** Returns the milliseconds for which a key in process was queued. */
  waitedMs(key: string): number {
    return this.#working.get(key)?.waitedMs ?? 0;
  }

  listWaiting(): readonly string[] {
    return [...this.#waiting.list(), ...this.#backlog.list()];
  }

  /** Queues the key. A failed key waits for its delay, except for a few early wakes or if its inputs have changed. */
  add(key: string): void {
    if (this.#isClosed) return;
    if (this.#working.has(key)) {
      this.#dirty.add(key);
      return;
    }
    const held = this.#isWaiting(key) ? undefined : this.#backoff.findHeld(this.#toStep(key));
    if (held === undefined || this.#earlyWakes.take(key)) this.#enqueue(key);
    else this.#delay(this.#retries, key, held.pauseMs);
  }

  /** Queues the key after `ms`. The earliest of several times applies. */
  addAfter(key: string, ms: number): void {
    this.#delay(this.#delayed, key, ms);
  }

  /** Queues the key after a delay that grows with consecutive failures of one code. Returns the delay in milliseconds. */
  retry(key: string, { code, minRetryMs = 0 }: KeyFailure): number {
    const pauseMs = this.#backoff.fail(this.#toStep(key), { code, summary: undefined });
    const waitMs = Math.max(pauseMs, minRetryMs);
    this.#retryCount += 1;
    this.#cancel(this.#retries, key);
    this.#delay(this.#retries, key, waitMs);
    return waitMs;
  }

  /** Returns the number of consecutive failures of a key that waits for a retry. */
  countFailures(key: string): number {
    return this.#backoff.findHeld(this.#toStep(key))?.failures ?? 0;
  }

  /** Forgets the key's failures and cancels its retry. */
  forget(key: string): void {
    this.#backoff.succeed(this.#toStep(key));
    this.#cancel(this.#retries, key);
  }

  /** Returns the next key, which is in process until `done` is called. Rejects with the signal's reason. */
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

  done(key: string): void {
    this.#working.delete(key);
    if (this.#dirty.delete(key)) this.add(key);
  }

  close(): void {
    this.#isClosed = true;
    for (const delays of [this.#delayed, this.#retries]) {
      for (const delay of delays.values()) delay.abort.abort();
      delays.clear();
    }
  }

  /** Returns the key's pass as a step with backoff. */
  #toStep(key: string): Step {
    return { scope: key, name: "pass", inputs: this.#readInputs(key) };
  }

  #isWaiting(key: string): boolean {
    return this.#waiting.has(key) || this.#backlog.has(key);
  }

  #takeFirst(): string | undefined {
    const [first, second] = this.#isBacklogNext
      ? [this.#backlog, this.#waiting]
      : [this.#waiting, this.#backlog];
    this.#isBacklogNext = !this.#isBacklogNext;
    return first.take() ?? second.take();
  }

  #enqueue(key: string): void {
    const isNew = !this.#isWaiting(key);
    const taker = isNew ? this.#takers.shift() : undefined;
    if (isNew) this.#addCount += 1;
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

  #delay(delays: Map<string, KeyTimer>, key: string, ms: number): void {
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
        // The end of the timer ends the delay, even if the clock is a fraction of a millisecond behind.
        if (delays === this.#retries && !this.#working.has(key)) this.#enqueue(key);
        else this.add(key);
      },
      () => undefined, // canceled
    );
  }

  #cancel(delays: Map<string, KeyTimer>, key: string): void {
    delays.get(key)?.abort.abort();
    delays.delete(key);
  }
}

export function createQueue(options: QueueOptions): Queue {
  return new Queue(options);
}

/** When to process the key again: at a change only, or also after a time. */
export type Next = { readonly kind: "done" } | { readonly kind: "after"; readonly ms: number };

export function done(): Next {
  return { kind: "done" };
}

/** Requests that the key is processed again after `ms` at the latest. */
export function after(ms: number): Next {
  return { kind: "after", ms };
}

export interface ReconcileMetrics {
  /** Records a pass; `waitedSeconds` is its time in the queue. */
  observeReconcile(pass: {
    readonly name: string;
    readonly result: "done" | "after" | "failed";
    readonly seconds: number;
    readonly waitedSeconds: number;
  }): void;
  /** Registers a queue whose metrics are read on demand. */
  addQueue(name: string, read: () => QueueStats): void;
}

/** Reports repeatedly lost writes to users. */
export interface LostWriteReporter {
  readonly events: EventRecorder;
  /** Returns the cached object; `resource` is the plural name. */
  readonly find: (resource: string, key: ObjectKey) => KubeObject | undefined;
}

export interface Reconciler {
  readonly name: string;
  readonly queue: Queue;
  /** Runs one pass over one key; must be idempotent. Calls `onProgress` between slow steps. */
  readonly reconcile: (key: string, signal: AbortSignal, onProgress: () => void) => Promise<Next>;
  readonly log: Logger;
  readonly clock: Clock;
  readonly metrics?: ReconcileMetrics;
  readonly watch?: LoopWatch;
  /** Reporter of lost writes, which are only logged if it is unset. */
  readonly lostWrites?: LostWriteReporter;
}

type Level = "debug" | "warn" | "error";

/** Returns the log level. Conflicts are normal. An error without a code is a bug and needs a person. */
function logLevel(error: unknown): Level {
  if (isAppError(error, "KUBE_CONFLICT")) return "debug";
  return isAppError(error) ? "warn" : "error";
}

/** Returns the error's code, or its class for errors of other libraries. */
function errorCode(error: unknown): string {
  if (isAppError(error)) return error.code;
  return error instanceof Error ? error.name : typeof error;
}

function requeue(reconciler: Reconciler, key: string, error: unknown): number {
  const failure = { code: errorCode(error), minRetryMs: minRetryDelayMs(error) };
  return reconciler.queue.retry(key, failure);
}

function logFailure(
  reconciler: Reconciler,
  error: unknown,
  fields: Readonly<Record<string, unknown>>,
): void {
  const level = logLevel(error);
  reconciler.log[level]("reconcile failed", {
    reconciler: reconciler.name,
    ...fields,
    ...(isAppError(error) && { code: error.code }),
    reason: messageOf(error),
    ...(level === "error" && { err: error }),
  });
}

/** Records an event on the object whose writes are lost. */
function recordLostWrites(reporter: LostWriteReporter | undefined, error: unknown): void {
  if (reporter === undefined || !isAppError(error, "KUBE_WRITES_LOST")) return;
  const { resource, object: key } = error.details;
  const object = reporter.find(String(resource), parseKey(String(key)));
  if (object === undefined) return;
  reporter.events.record(object, { type: "Warning", reason: "WritesLost", message: error.message });
}

async function pass(reconciler: Reconciler, key: string, signal: AbortSignal): Promise<void> {
  const { name, queue, clock, metrics } = reconciler;
  const watched = reconciler.watch?.begin(key);
  let hasWorked = false;
  const start = clock.monotonicMs();
  const waitedSeconds = queue.waitedMs(key) / 1000;
  const observe = (result: "done" | "after" | "failed"): void => {
    const seconds = (clock.monotonicMs() - start) / 1000;
    metrics?.observeReconcile({ name, result, seconds, waitedSeconds });
  };
  try {
    const next = await reconciler.reconcile(key, signal, () => watched?.recordProgress());
    hasWorked = true;
    queue.forget(key);
    if (next.kind === "after") queue.addAfter(key, next.ms);
    observe(next.kind);
  } catch (error) {
    if (signal.aborted) return;
    const retryMs = requeue(reconciler, key, error);
    const durationMs = Math.round(clock.monotonicMs() - start);
    logFailure(reconciler, error, { key, attempt: queue.countFailures(key), retryMs, durationMs });
    recordLostWrites(reconciler.lostWrites, error);
    observe("failed");
  } finally {
    queue.done(key);
    watched?.end(hasWorked);
  }
}

/** Maximum time of uninterrupted work, in milliseconds. */
const UNINTERRUPTED_MS = 10;

/** Yields to the event loop, because thousands of short passes would block watches, responses and Lease renewals. */
class EventLoopYielder {
  readonly #clock: Clock;
  #sinceMs: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#sinceMs = clock.monotonicMs();
  }

  /** Restarts the time of uninterrupted work, after the loop was idle. */
  restart(): void {
    this.#sinceMs = this.#clock.monotonicMs();
  }

  /** Resolves at once, or after pending events were handled if the work was uninterrupted for too long. */
  async yieldIfNeeded(): Promise<void> {
    if (this.#clock.monotonicMs() - this.#sinceMs < UNINTERRUPTED_MS) return;
    await new Promise<void>((resolve) => {
      setImmediate(resolve);
    });
    this.restart();
  }
}

async function work(
  reconciler: Reconciler,
  yielder: EventLoopYielder,
  signal: AbortSignal,
): Promise<void> {
  const { queue } = reconciler;
  while (!signal.aborted) {
    const isIdle = queue.length === 0;
    const key = await queue.take(signal).catch(() => undefined); // only an abort rejects
    if (isIdle) yielder.restart();
    if (key !== undefined) await pass(reconciler, key, signal);
    if (queue.length > 0) await yielder.yieldIfNeeded();
  }
}

/** Runs the loop. Resolves after `signal`, when running passes have ended. Failed keys are retried by their error's rule. */
export async function runReconciler(reconciler: Reconciler, signal: AbortSignal): Promise<void> {
  const { name, queue, clock, metrics } = reconciler;
  metrics?.addQueue(name, () => queue.readStats());
  reconciler.watch?.start(queue.listWaiting());
  const yielder = new EventLoopYielder(clock);
  const workers = Array.from({ length: queue.concurrency }, () =>
    work(reconciler, yielder, signal),
  );
  await Promise.all(workers);
  queue.close();
}
