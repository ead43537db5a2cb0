// SPDX-License-Identifier: Apache-2.0
// How does a person who runs `kubectl describe` learn what happened? Events, of which repeats are counted.
import { EVENTS, type KubeEvent, type KubeObject } from "@patchbay/api";
import { isAppError, messageOf } from "@patchbay/core";
import type { Clock, Logger, ObjectKey, Store } from "@patchbay/core/ports";
import { createTokenBuckets, type TokenBuckets } from "./pace/token-buckets.ts";

/** What is told. */
export interface Note {
  readonly type: "Normal" | "Warning";
  /** Stable word, for example `InterfacePlugged`. */
  readonly reason: string;
  /** The latest one is shown; it may differ each time. */
  readonly message: string;
  /**
   * Which part of the object, for example an interface: notes of one type and reason are one event for each part,
   * whatever their messages say. Default: the object as a whole.
   */
  readonly about?: string;
}

/** Makes Kubernetes events of notes; repeats are counted in one event. Nothing waits for it and nothing fails by it. */
export interface EventRecorder {
  /** Tells something about an object; returns at once, and a failure to write is only logged. */
  record(object: KubeObject, note: Note): void;
  /** Writes what is waiting. */
  flush(): Promise<void>;
}

/** Where events are written, and in whose name. */
export interface RecorderDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Name of the program, the events' source. */
  readonly component: string;
  /** Name of the node, for programs that run on one. */
  readonly host?: string;
}

/** Repeats within this are written together, milliseconds; doubled at each write while they go on. */
const COALESCE_MS = 5000;
/** Repeats are written this often at least, milliseconds. */
const COALESCE_MAX_MS = 300_000;
/** A repeat after this long is an event of its own, milliseconds. Source: client-go record/events_cache.go. */
const AGGREGATE_MS = 600_000;
/** New warnings of one object; what is above is dropped. Source: client-go record/events_cache.go (spam filter). */
const NEW_WARNINGS = { burst: 25, refillMs: 300_000 };
/** Other new events: each tells of something that was done, as of one of the NICs of a VM, of which there may be a hundred. */
const NEW_NORMAL = { burst: 128, refillMs: 30_000 };
/** Most notes that are remembered. Source: client-go record/events_cache.go (4096). */
const REMEMBERED_MAX = 1000;
/** Most characters of a message. Source: Kubernetes core/validation NoteLengthLimit. */
const MESSAGE_MAX = 1024;

interface Remembered {
  /** Undefined until the first write has succeeded. */
  key: ObjectKey | undefined;
  readonly object: KubeObject;
  note: Note;
  readonly firstMs: number;
  lastMs: number;
  count: number;
  writtenCount: number;
  /** Wait before the next repeats are written, milliseconds. */
  coalesceMs: number;
  isWriting: boolean;
}

function idOf({ metadata: { namespace, name, uid } }: KubeObject): string {
  return JSON.stringify([namespace, name, uid]);
}

function wordsOf({ type, reason, message }: Note): Pick<Note, "type" | "reason" | "message"> {
  return { type, reason, message: message.slice(0, MESSAGE_MAX) };
}

function begin(object: KubeObject, note: Note, nowMs: number): Remembered {
  return {
    key: undefined,
    object,
    note,
    firstMs: nowMs,
    lastMs: nowMs,
    count: 0,
    writtenCount: 0,
    coalesceMs: COALESCE_MS,
    isWriting: false,
  };
}

class CoalescingRecorder implements EventRecorder {
  readonly #deps: RecorderDeps;
  readonly #newEvents: Readonly<Record<Note["type"], TokenBuckets>>;
  readonly #remembered = new Map<string, Remembered>();
  readonly #writes = new Set<Promise<void>>();
  #flushing = new AbortController();
  #sequence = 0;

  constructor(deps: RecorderDeps) {
    this.#deps = deps;
    this.#newEvents = {
      Warning: createTokenBuckets(deps.clock, NEW_WARNINGS),
      Normal: createTokenBuckets(deps.clock, NEW_NORMAL),
    };
  }

  record(object: KubeObject, note: Note): void {
    const nowMs = this.#deps.clock.now();
    const entry = this.#entryFor(object, note, nowMs);
    if (nowMs - entry.lastMs >= COALESCE_MAX_MS) entry.coalesceMs = COALESCE_MS;
    entry.note = note;
    entry.count += 1;
    entry.lastMs = nowMs;
    if (entry.isWriting) return; // it will be counted by the write that follows
    if (entry.key === undefined && !this.#newEvents[note.type].take(idOf(object))) return;
    entry.isWriting = true;
    const write = this.#writeAll(entry).finally(() => {
      entry.isWriting = false;
      this.#writes.delete(write);
    });
    this.#writes.add(write);
  }

  async flush(): Promise<void> {
    this.#flushing.abort();
    await Promise.all(this.#writes);
    this.#flushing = new AbortController();
  }

  #entryFor(object: KubeObject, note: Note, nowMs: number): Remembered {
    const id = JSON.stringify([idOf(object), note.type, note.reason, note.about]);
    const known = this.#remembered.get(id);
    const isOver = known === undefined || nowMs - known.lastMs >= AGGREGATE_MS;
    const entry = isOver ? begin(object, note, nowMs) : known;
    this.#remembered.delete(id); // behind the others
    this.#remembered.set(id, entry);
    const [oldest] = this.#remembered.keys();
    if (this.#remembered.size > REMEMBERED_MAX && oldest !== undefined) {
      this.#remembered.delete(oldest);
    }
    return entry;
  }

  /** Writes at once the first time, then what has come meanwhile, until nothing more has come. */
  async #writeAll(entry: Remembered): Promise<void> {
    if (entry.writtenCount > 0) await this.#coalesce(entry);
    while (entry.writtenCount < entry.count) {
      const count = entry.count;
      await this.#write(entry, count);
      entry.writtenCount = count;
      if (entry.count > count) await this.#coalesce(entry);
    }
  }

  async #coalesce(entry: Remembered): Promise<void> {
    const { clock } = this.#deps;
    const { coalesceMs } = entry;
    entry.coalesceMs = Math.min(2 * coalesceMs, COALESCE_MAX_MS);
    await clock.sleep(coalesceMs, this.#flushing.signal).catch(() => undefined); // flushed: at once
  }

  async #write(entry: Remembered, count: number): Promise<void> {
    try {
      if (entry.key === undefined) await this.#create(entry, count);
      else await this.#update(entry.key, entry, count);
    } catch (error) {
      if (isAppError(error, "KUBE_NOT_FOUND") && entry.key !== undefined) {
        entry.key = undefined; // the server forgot it
        await this.#write(entry, count);
        return;
      }
      const { reason } = entry.note;
      this.#deps.logger.warn("event not written", { event: reason, reason: messageOf(error) });
    }
  }

  async #create(entry: Remembered, count: number): Promise<void> {
    const { name, namespace, uid } = entry.object.metadata;
    const { component, host, store } = this.#deps;
    this.#sequence += 1;
    const suffix = `${entry.firstMs.toString(16)}${this.#sequence.toString(16).padStart(4, "0")}`;
    const key = { namespace: namespace ?? "default", name: `${name}.${suffix}` };
    const event: KubeEvent = {
      apiVersion: "v1",
      kind: "Event",
      metadata: key,
      involvedObject: {
        apiVersion: entry.object.apiVersion,
        kind: entry.object.kind,
        name,
        ...(namespace !== undefined && { namespace }),
        ...(uid !== undefined && { uid }),
      },
      ...wordsOf(entry.note),
      count,
      firstTimestamp: toTimestamp(entry.firstMs),
      lastTimestamp: toTimestamp(entry.lastMs),
      source: { component, ...(host !== undefined && { host }) },
    };
    await store.create(EVENTS, event);
    entry.key = key;
  }

  async #update(key: ObjectKey, entry: Remembered, count: number): Promise<void> {
    const { message } = wordsOf(entry.note);
    const fields = { count, message, lastTimestamp: toTimestamp(entry.lastMs) };
    await this.#deps.store.patch(EVENTS, key, { type: "merge", fields });
  }
}

/** RFC 3339 text without fractions. Source: Kubernetes metav1.Time. */
function toTimestamp(ms: number): string {
  // oxlint-disable-next-line no-restricted-globals -- formats a time, reads no clock
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}

/**
 * A recorder that counts repeats up in one event: notes on the same object and part with the same type and reason.
 * However much goes wrong, an object has 25 new warnings at once and then one in five minutes, and a note that repeats
 * without end is written ever less often.
 */
export function createEventRecorder(deps: RecorderDeps): EventRecorder {
  return new CoalescingRecorder(deps);
}
