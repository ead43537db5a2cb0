// SPDX-License-Identifier: Apache-2.0
// Runs a loop over the keys of a queue, with retries, logs and metrics.
import type { KubeObject } from "@patchbay/api";
import { isAppError, minRetryDelayMs, messageOf, type Clock, type Logger } from "@patchbay/base";
import type { QueueStats } from "@patchbay/core/metrics";
import type { ObjectKey } from "@patchbay/core/interfaces";
import type { EventRecorder } from "../event-recorder.ts";
import { parseKey } from "../objects/object-metadata.ts";
import type { LoopWatch } from "./loop-watch.ts";
import type { Queue } from "./queue.ts";

/** When to process the key again: on a change only, or also after a time. */
export type Next = { readonly kind: "done" } | { readonly kind: "after"; readonly ms: number };

export function done(): Next {
  return { kind: "done" };
}

/** Processes the key again after `ms` at the latest. */
export function after(ms: number): Next {
  return { kind: "after", ms };
}

export interface ReconcileMetrics {
  /** `waitedSeconds`: time in the queue. */
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
  /** The cached object; `resource` is plural. */
  readonly find: (resource: string, key: ObjectKey) => KubeObject | undefined;
}

export interface Reconciler {
  readonly name: string;
  readonly queue: Queue;
  /** One pass over one key; must be idempotent. Calls `progressed` between slow steps. */
  readonly reconcile: (key: string, signal: AbortSignal, progressed: () => void) => Promise<Next>;
  readonly log: Logger;
  readonly clock: Clock;
  readonly metrics?: ReconcileMetrics;
  readonly watch?: LoopWatch;
  /** If unset, lost writes are only logged. */
  readonly lostWrites?: LostWriteReporter;
}

type Level = "debug" | "warn" | "error";

/** Conflicts are normal. An error without a code is a bug and needs a person. */
function logLevel(error: unknown): Level {
  if (isAppError(error, "KUBE_CONFLICT")) return "debug";
  return isAppError(error) ? "warn" : "error";
}

/** Errors of other libraries have no code, but a stable class. */
function errorCode(error: unknown): string {
  if (isAppError(error)) return error.code;
  return error instanceof Error ? error.name : typeof error;
}

function requeue(reconciler: Reconciler, key: string, error: unknown): number {
  const failure = { code: errorCode(error), retryAtLeastMs: minRetryDelayMs(error) };
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
    const next = await reconciler.reconcile(key, signal, () => watched?.progressed());
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

/** Milliseconds of uninterrupted work. */
const UNINTERRUPTED_MS = 10;

/** Without this, thousands of passes without work would block watches, responses and Lease renewals. */
class EventLoopYielder {
  readonly #clock: Clock;
  #sinceMs: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#sinceMs = clock.monotonicMs();
  }

  /** Call it after the loop was idle. */
  restart(): void {
    this.#sinceMs = this.#clock.monotonicMs();
  }

  /** Resolves at once unless the loop has run for long; otherwise after pending events were handled. */
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

/** Resolves after `signal`, when running passes have ended. Failed keys are retried by their error's retry rule. */
export async function runReconciler(reconciler: Reconciler, signal: AbortSignal): Promise<void> {
  const { name, queue, clock, metrics } = reconciler;
  metrics?.addQueue(name, () => queue.figures());
  reconciler.watch?.start(queue.waiting());
  const yielder = new EventLoopYielder(clock);
  const workers = Array.from({ length: queue.concurrency }, () =>
    work(reconciler, yielder, signal),
  );
  await Promise.all(workers);
  queue.close();
}
