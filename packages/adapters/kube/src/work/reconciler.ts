// SPDX-License-Identifier: Apache-2.0
// Who works on the keys of a queue, and what happens when that fails?
import type { KubeObject } from "@patchbay/api";
import { isAppError, leastPauseMs, messageOf, type QueueFigures } from "@patchbay/core";
import type { Clock, Logger, ObjectKey } from "@patchbay/core/ports";
import type { EventRecorder } from "../event-recorder.ts";
import { parseKey } from "../objects/resource-path.ts";
import type { LoopWatch } from "./loop-watch.ts";
import type { Queue } from "./queue.ts";

/** When to look at a key again: when something changes, or also after a time. */
export type Next = { readonly kind: "done" } | { readonly kind: "after"; readonly ms: number };

/** Nothing to do until something changes. */
export function done(): Next {
  return { kind: "done" };
}

/** Look again after `ms` at the latest. */
export function after(ms: number): Next {
  return { kind: "after", ms };
}

/** What is counted. Telemetry's metrics have this form. */
export interface ReconcileMetrics {
  /** One pass has ended, for whose key nobody was free for `waitedSeconds`. */
  observeReconcile(pass: {
    readonly name: string;
    readonly result: "done" | "after" | "failed";
    readonly seconds: number;
    readonly waitedSeconds: number;
  }): void;
  /** Takes what a loop's queue looks like, to be read when somebody asks. */
  addQueue(name: string, read: () => QueueFigures): void;
}

/** Tells people of writes that lose again and again. */
export interface LostWriteTeller {
  readonly events: EventRecorder;
  /** The object that was written, as it is known; `resource` is plural. */
  readonly find: (resource: string, key: ObjectKey) => KubeObject | undefined;
}

/** One loop. */
export interface Reconciler {
  /** For logs and metrics. */
  readonly name: string;
  readonly queue: Queue;
  /** One pass over one key. Safe to repeat. One of many slow steps calls `progressed` after each. */
  readonly reconcile: (key: string, signal: AbortSignal, progressed: () => void) => Promise<Next>;
  readonly log: Logger;
  readonly clock: Clock;
  readonly metrics?: ReconcileMetrics;
  /** Whoever wants to know whether the loop stands still. */
  readonly watch?: LoopWatch;
  /** Absent: lost writes are logged only. */
  readonly lostWrites?: LostWriteTeller;
}

type Level = "debug" | "warn" | "error";

/** Losing a race is everyday; what has no code is a fault of ours and needs a person. */
function levelOf(error: unknown): Level {
  if (isAppError(error, "KUBE_CONFLICT")) return "debug";
  return isAppError(error) ? "warn" : "error";
}

/** An error of another's making has no code; its class is what stays the same. */
function codeOf(error: unknown): string {
  if (isAppError(error)) return error.code;
  return error instanceof Error ? error.name : typeof error;
}

function requeue(reconciler: Reconciler, key: string, error: unknown): number {
  const failure = { code: codeOf(error), retryAtLeastMs: leastPauseMs(error) };
  return reconciler.queue.retry(key, failure);
}

function logFailure(
  reconciler: Reconciler,
  error: unknown,
  fields: Readonly<Record<string, unknown>>,
): void {
  const level = levelOf(error);
  reconciler.log[level]("reconcile failed", {
    reconciler: reconciler.name,
    ...fields,
    ...(isAppError(error) && { code: error.code }),
    reason: messageOf(error),
    ...(level === "error" && { err: error }),
  });
}

/** An event on the object, where the error is that its writes are lost. */
function tellLostWrites(teller: LostWriteTeller | undefined, error: unknown): void {
  if (teller === undefined || !isAppError(error, "KUBE_WRITES_LOST")) return;
  const { resource, object: key } = error.details;
  const object = teller.find(String(resource), parseKey(String(key)));
  if (object === undefined) return;
  teller.events.record(object, { type: "Warning", reason: "WritesLost", message: error.message });
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
    logFailure(reconciler, error, { key, attempt: queue.failuresOf(key), retryMs, durationMs });
    tellLostWrites(reconciler.lostWrites, error);
    observe("failed");
  } finally {
    queue.done(key);
    watched?.end(hasWorked);
  }
}

/** For how long passes may follow one another that wait for nothing, milliseconds. */
const HELD_MS = 10;

/**
 * When the loop gives way to what has come meanwhile. Passes over thousands of keys that need nothing would
 * else be one run of promises, in which no watch, no answer and no renewal of a Lease is heard of.
 */
class Courtesy {
  readonly #clock: Clock;
  #sinceMs: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#sinceMs = clock.monotonicMs();
  }

  /** The loop has waited, and others were heard. */
  begin(): void {
    this.#sinceMs = this.#clock.monotonicMs();
  }

  /** Resolves at once where the loop has not held the process for long, else when what has come was read. */
  async giveWay(): Promise<void> {
    if (this.#clock.monotonicMs() - this.#sinceMs < HELD_MS) return;
    await new Promise<void>((resolve) => {
      setImmediate(resolve);
    });
    this.begin();
  }
}

async function work(
  reconciler: Reconciler,
  courtesy: Courtesy,
  signal: AbortSignal,
): Promise<void> {
  const { queue } = reconciler;
  while (!signal.aborted) {
    const isIdle = queue.length === 0;
    const key = await queue.take(signal).catch(() => undefined); // only an abort rejects
    if (isIdle) courtesy.begin();
    if (key !== undefined) await pass(reconciler, key, signal);
    if (queue.length > 0) await courtesy.giveWay();
  }
}

/**
 * Works on the queue until `signal` is aborted; resolves when the passes that run have ended. A failed key comes
 * again, as its error's retry rule says; one key's failure holds up no other.
 */
export async function runReconciler(reconciler: Reconciler, signal: AbortSignal): Promise<void> {
  const { name, queue, clock, metrics } = reconciler;
  metrics?.addQueue(name, () => queue.figures());
  reconciler.watch?.start(queue.waiting());
  const courtesy = new Courtesy(clock);
  const workers = Array.from({ length: queue.concurrency }, () =>
    work(reconciler, courtesy, signal),
  );
  await Promise.all(workers);
  queue.close();
}
