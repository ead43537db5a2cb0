// SPDX-License-Identifier: Apache-2.0
// Runs a reconcile loop over a work queue, with retries, logs and metrics. As in client-go's workqueue, a key is queued
// once, processed by one worker, and queued again if it was added meanwhile. Unlike in client-go, events end the delay
// of a failed key only at a limited rate, because the failure itself often causes events.
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

/** Queue that takes keys from its groups in turn, so that a group with many keys does not delay other groups. */
export class FairQueue {
  readonly #toGroup: (key: string) => string;
  /** Keys by group, in the order in which the groups are served. Empty groups are removed. */
  readonly #groups = new Map<string, Set<string>>();
  #size = 0;

  /** `toGroup` must always return the same group for a key. */
  constructor(toGroup: (key: string) => string) {
    this.#toGroup = toGroup;
  }

  get size(): number {
    return this.#size;
  }

  has(key: string): boolean {
    return this.#groups.get(this.#toGroup(key))?.has(key) === true;
  }

  add(key: string): void {
    if (this.has(key)) return;
    const group = this.#toGroup(key);
    const keys = this.#groups.get(group) ?? new Set();
    this.#groups.set(group, keys.add(key));
    this.#size += 1;
  }

  take(): string | undefined {
    for (const [group, keys] of this.#groups) {
      this.#groups.delete(group);
      for (const key of keys) {
        keys.delete(key);
        this.#size -= 1;
        // Adds the group again at the end, so that the keys of all other groups are taken first.
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
  /** Number of keys that are processed concurrently. Default: 1. */
  readonly concurrency?: number;
  /** Range of delays before a failed key is retried. Default: from 100 ms to 60 s, doubled at each failure, with 50 % jitter. */
  readonly backoff?: BackoffRange;
  readonly random?: Random;
  /** Returns the key's inputs, such as the generation. A change ends a failed key's delay, so the loop itself must not change inputs. */
  readonly readInputs?: (key: string) => string;
  /** Returns the group of a key, for example its namespace. The queue takes keys from the groups in turn. */
  readonly toGroup?: (key: string) => string;
}

/** Returns a string that changes with each new version of the object's specification and with its deletion. */
export function specVersionOf(object: KubeObject | undefined): string {
  const { uid, generation, deletionTimestamp } = object?.metadata ?? {};
  return JSON.stringify([uid, generation, deletionTimestamp]);
}

interface KeyFailure {
  readonly code: string;
  /** Minimum delay of an automatic retry, in milliseconds. Events may trigger an earlier retry. Default: 0. */
  readonly minRetryMs?: number;
}

const BACKOFF: BackoffRange = { firstMs: 100, maxMs: 60_000, jitter: 0.5 };
/** Rate limit for events that end the retry delay of a failed key early. Applies to each key separately. */
const EARLY_WAKE_LIMIT = { burst: 5, refillMs: 60_000 };

interface WorkInProgress {
  readonly sinceMs: number;
  /** Time that the key spent in the queue, in milliseconds. */
  readonly waitedMs: number;
}

const MS_PER_SECOND = 1000;

interface KeyTimer {
  readonly dueMs: number;
  readonly abort: AbortController;
}

/**
 * Work queue, first in, first out within a group. Keys that are added before the first `take` form the backlog, which contains all objects
 * at startup. `take` alternates between backlog and new keys, so that new keys need not wait for the whole backlog.
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
  /** Keys that were added while they were processed. They are queued again when the processing has ended. */
  readonly #dirty = new Set<string>();
  readonly #delayed = new Map<string, KeyTimer>();
  readonly #retries = new Map<string, KeyTimer>();
  readonly #pendingTakes: ((key: string) => void)[] = [];
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
      unfinishedSeconds: seconds.reduce((sum, value) => sum + value, 0),
      longestRunningSeconds: Math.max(0, ...seconds),
    };
  }

  /** Returns how long the key was queued before its running pass, in milliseconds. Returns 0 if no pass is running. */
  waitedMs(key: string): number {
    return this.#working.get(key)?.waitedMs ?? 0;
  }

  listWaiting(): readonly string[] {
    return [...this.#waiting.list(), ...this.#backlog.list()];
  }

  /** Queues the key. A failed key waits for its delay, unless its inputs changed or EARLY_WAKE_LIMIT allows an earlier retry. */
  add(key: string): void {
    if (this.#isClosed) return;
    if (this.#working.has(key)) {
      this.#dirty.add(key);
      return;
    }
    const delay = this.#isWaiting(key) ? undefined : this.#backoff.findDelay(this.#toStep(key));
    if (delay === undefined || this.#earlyWakes.take(key)) this.#enqueue(key);
    else this.#delay(this.#retries, key, delay.pauseMs);
  }

  /** Queues the key after `ms` milliseconds, or earlier if another call requested an earlier time. */
  addAfter(key: string, ms: number): void {
    this.#delay(this.#delayed, key, ms);
  }

  /** Queues a failed key after its backoff. Returns the delay in milliseconds. */
  retry(key: string, { code, minRetryMs = 0 }: KeyFailure): number {
    const pauseMs = this.#backoff.fail(this.#toStep(key), { code, summary: undefined });
    const waitMs = Math.max(pauseMs, minRetryMs);
    this.#retryCount += 1;
    this.#cancel(this.#retries, key);
    this.#delay(this.#retries, key, waitMs);
    return waitMs;
  }

  countFailures(key: string): number {
    return this.#backoff.findDelay(this.#toStep(key))?.failures ?? 0;
  }

  forget(key: string): void {
    this.#backoff.succeed(this.#toStep(key));
    this.#cancel(this.#retries, key);
  }

  /** Returns the next key, which counts as being processed until `done`. After an abort, rejects with the signal's reason. */
  take(signal: AbortSignal): Promise<string> {
    if (signal.aborted) return Promise.reject(new Error(messageOf(signal.reason)));
    this.#isStarted = true;
    const key = this.#takeFirst();
    if (key !== undefined) {
      this.#begin(key);
      return Promise.resolve(key);
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

  #toStep(key: string): Step {
    return { scope: key, name: "pass", inputs: this.#readInputs(key) };
  }

  #isWaiting(key: string): boolean {
    return this.#waiting.has(key) || this.#backlog.has(key);
  }

  #takeFirst(): string | undefined {
    const [preferred, other] = this.#isBacklogNext
      ? [this.#backlog, this.#waiting]
      : [this.#waiting, this.#backlog];
    this.#isBacklogNext = !this.#isBacklogNext;
    return preferred.take() ?? other.take();
  }

  #enqueue(key: string): void {
    const isAdded = !this.#isWaiting(key);
    const resolveTake = isAdded ? this.#pendingTakes.shift() : undefined;
    if (isAdded) this.#addCount += 1;
    if (resolveTake !== undefined) {
      this.#begin(key);
      resolveTake(key);
      return;
    }
    if (isAdded) this.#waitingSince.set(key, this.#clock.monotonicMs());
    if (!this.#isStarted) this.#backlog.add(key);
    else if (isAdded || this.#backlog.remove(key)) this.#waiting.add(key);
  }

  #begin(key: string): void {
    const nowMs = this.#clock.monotonicMs();
    const waitedMs = nowMs - (this.#waitingSince.get(key) ?? nowMs);
    this.#waitingSince.delete(key);
    this.#working.set(key, { sinceMs: nowMs, waitedMs });
  }

  #waitForKey(signal: AbortSignal): Promise<string> {
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    const resolveTake = (key: string): void => {
      signal.removeEventListener("abort", onAbort);
      resolve(key);
    };
    const onAbort = (): void => {
      this.#pendingTakes.splice(this.#pendingTakes.indexOf(resolveTake), 1);
      reject(new Error(messageOf(signal.reason)));
    };
    signal.addEventListener("abort", onAbort, { once: true });
    this.#pendingTakes.push(resolveTake);
    return promise;
  }

  #delay(delays: Map<string, KeyTimer>, key: string, ms: number): void {
    if (this.#isClosed) return;
    const dueMs = this.#clock.monotonicMs() + ms;
    const scheduled = delays.get(key);
    if (scheduled !== undefined && scheduled.dueMs <= dueMs) return;
    scheduled?.abort.abort();
    const delay = { dueMs, abort: new AbortController() };
    delays.set(key, delay);
    this.#clock.sleep(ms, delay.abort.signal).then(
      () => {
        delays.delete(key);
        // Bypasses `add`: if the timer fires a fraction of a millisecond too early, `add` could delay the key again.
        if (delays === this.#retries && !this.#working.has(key)) this.#enqueue(key);
        else this.add(key);
      },
      () => undefined, // The timer was canceled.
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

/** Result of a reconcile pass. `done`: process the key again only after a change. `after`: also after `ms` milliseconds. */
export type Next = { readonly kind: "done" } | { readonly kind: "after"; readonly ms: number };

export function done(): Next {
  return { kind: "done" };
}

export function after(ms: number): Next {
  return { kind: "after", ms };
}

export interface ReconcileMetrics {
  /** Records a pass. `waitedSeconds` is the time that the key spent in the queue. */
  observeReconcile(runPass: {
    readonly name: string;
    readonly result: "done" | "after" | "failed";
    readonly seconds: number;
    readonly waitedSeconds: number;
  }): void;
  /** Registers a queue, whose metrics are read on demand. */
  addQueue(name: string, read: () => QueueStats): void;
}

export interface LostWriteReporter {
  readonly events: EventRecorder;
  /** Returns the cached object. `resource` is the plural name of its kind. */
  readonly find: (resource: string, key: ObjectKey) => KubeObject | undefined;
}

export interface Reconciler {
  readonly name: string;
  readonly queue: Queue;
  /** Runs one pass over a key. Must be idempotent. Calls `onProgress` between slow steps. */
  readonly reconcile: (key: string, signal: AbortSignal, onProgress: () => void) => Promise<Next>;
  readonly log: Logger;
  readonly clock: Clock;
  readonly metrics?: ReconcileMetrics;
  readonly watch?: LoopWatch;
  /** Pause of a worker after a pass: `factor` times the duration of the pass, at most `maxMs`. Default: none. */
  readonly pause?: { readonly factor: number; readonly maxMs: number };
  /** Reporter of repeated conflicts. If unset, conflicts are only logged. */
  readonly lostWrites?: LostWriteReporter;
}

type Level = "debug" | "warn" | "error";

/** Returns `debug` for a conflict, which is normal; `warn` for any other AppError; `error` for an unexpected error. */
function logLevel(error: unknown): Level {
  if (isAppError(error, "KUBE_CONFLICT")) return "debug";
  return isAppError(error) ? "warn" : "error";
}

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

function recordLostWrites(reporter: LostWriteReporter | undefined, error: unknown): void {
  if (reporter === undefined || !isAppError(error, "KUBE_WRITES_LOST")) return;
  const { resource, object: key } = error.details;
  const object = reporter.find(String(resource), parseKey(String(key)));
  if (object === undefined) return;
  reporter.events.record(object, { type: "Warning", reason: "WritesLost", message: error.message });
}

async function runPass(reconciler: Reconciler, key: string, signal: AbortSignal): Promise<void> {
  const { name, queue, clock, metrics } = reconciler;
  const watchedPass = reconciler.watch?.begin(key);
  let hasSucceeded = false;
  const start = clock.monotonicMs();
  const waitedSeconds = queue.waitedMs(key) / 1000;
  const recordResult = (result: "done" | "after" | "failed"): void => {
    const seconds = (clock.monotonicMs() - start) / 1000;
    metrics?.observeReconcile({ name, result, seconds, waitedSeconds });
  };
  try {
    const next = await reconciler.reconcile(key, signal, () => watchedPass?.recordProgress());
    hasSucceeded = true;
    queue.forget(key);
    if (next.kind === "after") queue.addAfter(key, next.ms);
    recordResult(next.kind);
  } catch (error) {
    if (signal.aborted) return;
    const retryMs = requeue(reconciler, key, error);
    const durationMs = Math.round(clock.monotonicMs() - start);
    logFailure(reconciler, error, { key, attempt: queue.countFailures(key), retryMs, durationMs });
    recordLostWrites(reconciler.lostWrites, error);
    recordResult("failed");
  } finally {
    queue.done(key);
    watchedPass?.end(hasSucceeded);
  }
}

/** Maximum time of work between two yields to the event loop, in milliseconds. */
const UNINTERRUPTED_MS = 10;

/** Yields to the event loop regularly. Otherwise, thousands of short passes would delay watches and Lease renewals. */
class EventLoopYielder {
  readonly #clock: Clock;
  #sinceMs: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#sinceMs = clock.monotonicMs();
  }

  restart(): void {
    this.#sinceMs = this.#clock.monotonicMs();
  }

  async yieldIfNeeded(): Promise<void> {
    if (this.#clock.monotonicMs() - this.#sinceMs < UNINTERRUPTED_MS) return;
    await new Promise<void>((resolve) => {
      setImmediate(resolve);
    });
    this.restart();
  }
}

async function pauseAfter(
  { clock, pause = { factor: 0, maxMs: 0 } }: Reconciler,
  passMs: number,
  signal: AbortSignal,
): Promise<void> {
  const ms = Math.min(pause.factor * passMs, pause.maxMs);
  if (ms > 0) await clock.sleep(ms, signal).catch(() => undefined);
}

async function runWorker(
  reconciler: Reconciler,
  yielder: EventLoopYielder,
  signal: AbortSignal,
): Promise<void> {
  const { queue, clock } = reconciler;
  while (!signal.aborted) {
    const isIdle = queue.length === 0;
    const key = await queue.take(signal).catch(() => undefined); // Only an abort rejects the promise.
    if (isIdle) yielder.restart();
    if (key !== undefined) {
      const startMs = clock.monotonicMs();
      await runPass(reconciler, key, signal);
      await pauseAfter(reconciler, clock.monotonicMs() - startMs, signal);
    }
    if (queue.length > 0) await yielder.yieldIfNeeded();
  }
}

/** Runs the loop until the signal is aborted and running passes have ended. Retries failed keys with backoff. */
export async function runReconciler(reconciler: Reconciler, signal: AbortSignal): Promise<void> {
  const { name, queue, clock, metrics } = reconciler;
  metrics?.addQueue(name, () => queue.readStats());
  reconciler.watch?.start(queue.listWaiting());
  const yielder = new EventLoopYielder(clock);
  const workers = Array.from({ length: queue.concurrency }, () =>
    runWorker(reconciler, yielder, signal),
  );
  await Promise.all(workers);
  queue.close();
}
