// SPDX-License-Identifier: Apache-2.0
// Records Kubernetes events. Repeats increase the count of the existing event.
import { EVENTS } from "@patchbay/api";
import type { KubeEvent, KubeObject } from "@patchbay/api/kubernetes";
import { isAppError, messageOf, omitUndefined, type Clock, type Logger } from "@patchbay/base";
import type { ObjectKey, Store } from "@patchbay/core/interfaces";
import { createTokenBuckets, type TokenBuckets } from "./pace/backoff.ts";

export interface Note {
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
  /** Part of the object that the event concerns, for example an interface. Unset if the event concerns the whole object. */
  readonly about?: string;
}

/** Recorder of events. Its methods do not throw, and `record` does not wait for the write. */
export interface EventRecorder {
  record(object: KubeObject, note: Note): void;
  flush(): Promise<void>;
}

export interface RecorderDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly component: string;
  readonly host?: string;
}

/** Delay before an event's repeats are first written, in milliseconds. Each further write of its repeats doubles the delay. */
const COALESCE_MS = 5000;
const COALESCE_MAX_MS = 300_000;
/** Milliseconds without a repeat after which the next repeat becomes a new event. Source: client-go record/events_cache.go */
const NEW_EVENT_AFTER_MS = 600_000;
/** Rate limit of new warnings per object. Source: client-go record/events_cache.go (spam filter) */
const NEW_WARNING_LIMIT = { burst: 25, refillMs: 300_000 };
/** Rate limit, per object, of new events of type Normal. A VM with 100 NICs may cause one event per NIC. */
const NEW_NORMAL_LIMIT = { burst: 128, refillMs: 30_000 };
const EVENTS_MAX = 1000;
/** Maximum length of a message, in characters. Source: Kubernetes core/validation NoteLengthLimit */
const MESSAGE_MAX = 1024;

interface RecordedEvent {
  /** Undefined until the server has created the event. */
  key: ObjectKey | undefined;
  readonly object: KubeEvent["involvedObject"] & { readonly name: string };
  note: Note;
  readonly firstMs: number;
  lastMs: number;
  count: number;
  writtenCount: number;
  coalesceMs: number;
  isWriting: boolean;
}

function objectId({ metadata: { namespace, name, uid } }: KubeObject): string {
  return JSON.stringify([namespace, name, uid]);
}

function eventText({ type, reason, message }: Note): Pick<Note, "type" | "reason" | "message"> {
  return { type, reason, message: message.slice(0, MESSAGE_MAX) };
}

/** Retains only the reference, because objects may be large and outlive their deletion here. */
function createEntry(
  { apiVersion, kind, metadata: { name, namespace, uid } }: KubeObject,
  note: Note,
  nowMs: number,
): RecordedEvent {
  return {
    key: undefined,
    object: omitUndefined({ apiVersion, kind, name, namespace, uid }),
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
  readonly #entries = new Map<string, RecordedEvent>();
  readonly #writes = new Set<Promise<void>>();
  #flushing = new AbortController();
  #sequence = 0;

  constructor(deps: RecorderDeps) {
    this.#deps = deps;
    this.#newEvents = {
      Warning: createTokenBuckets(deps.clock, NEW_WARNING_LIMIT),
      Normal: createTokenBuckets(deps.clock, NEW_NORMAL_LIMIT),
    };
  }

  record(object: KubeObject, note: Note): void {
    const nowMs = this.#deps.clock.now();
    const entry = this.#entryFor(object, note, nowMs);
    if (nowMs - entry.lastMs >= COALESCE_MAX_MS) entry.coalesceMs = COALESCE_MS;
    entry.note = note;
    entry.count += 1;
    entry.lastMs = nowMs;
    if (entry.isWriting) return; // The write in progress continues until it has also written this repeat.
    if (entry.key === undefined && !this.#newEvents[note.type].take(objectId(object))) return;
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

  #entryFor(object: KubeObject, note: Note, nowMs: number): RecordedEvent {
    const id = JSON.stringify([objectId(object), note.type, note.reason, note.about]);
    const knownEntry = this.#entries.get(id);
    const isExpired = knownEntry === undefined || nowMs - knownEntry.lastMs >= NEW_EVENT_AFTER_MS;
    const entry = isExpired ? createEntry(object, note, nowMs) : knownEntry;
    this.#entries.delete(id);
    this.#entries.set(id, entry);
    const [oldest] = this.#entries.keys();
    if (this.#entries.size > EVENTS_MAX && oldest !== undefined) {
      this.#entries.delete(oldest);
    }
    return entry;
  }

  /** Writes the event and its repeats. Repeats that are recorded meanwhile are also written, after a delay. */
  async #writeAll(entry: RecordedEvent): Promise<void> {
    if (entry.writtenCount > 0) await this.#coalesce(entry);
    while (entry.writtenCount < entry.count) {
      const count = entry.count;
      await this.#write(entry, count);
      entry.writtenCount = count;
      if (entry.count > count) await this.#coalesce(entry);
    }
  }

  async #coalesce(entry: RecordedEvent): Promise<void> {
    const { clock } = this.#deps;
    const { coalesceMs } = entry;
    entry.coalesceMs = Math.min(2 * coalesceMs, COALESCE_MAX_MS);
    await clock.sleep(coalesceMs, this.#flushing.signal).catch(() => undefined); // `flush` ends the delay.
  }

  async #write(entry: RecordedEvent, count: number): Promise<void> {
    try {
      if (entry.key === undefined) await this.#create(entry, count);
      else await this.#update(entry.key, entry, count);
    } catch (error) {
      if (isAppError(error, "KUBE_NOT_FOUND") && entry.key !== undefined) {
        entry.key = undefined; // The event has expired on the server.
        await this.#write(entry, count);
        return;
      }
      const { reason } = entry.note;
      this.#deps.logger.warn("event not written", { event: reason, reason: messageOf(error) });
    }
  }

  async #create(entry: RecordedEvent, count: number): Promise<void> {
    const { name, namespace } = entry.object;
    const { component, host, store } = this.#deps;
    this.#sequence += 1;
    const suffix = `${entry.firstMs.toString(16)}${this.#sequence.toString(16).padStart(4, "0")}`;
    const key = { namespace: namespace ?? "default", name: `${name}.${suffix}` };
    const event: KubeEvent = {
      apiVersion: "v1",
      kind: "Event",
      metadata: key,
      involvedObject: entry.object,
      ...eventText(entry.note),
      count,
      firstTimestamp: toTimestamp(entry.firstMs),
      lastTimestamp: toTimestamp(entry.lastMs),
      source: { component, ...(host !== undefined && { host }) },
    };
    await store.create(EVENTS, event);
    entry.key = key;
  }

  async #update(key: ObjectKey, entry: RecordedEvent, count: number): Promise<void> {
    const { message } = eventText(entry.note);
    const fields = { count, message, lastTimestamp: toTimestamp(entry.lastMs) };
    await this.#deps.store.patch(EVENTS, key, { type: "merge", fields });
  }
}

/** Prints a time as RFC 3339 in seconds. Source: Kubernetes metav1.Time */
function toTimestamp(ms: number): string {
  // oxlint-disable-next-line no-restricted-globals -- formats a time, reads no clock
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}

export function createEventRecorder(deps: RecorderDeps): EventRecorder {
  return new CoalescingRecorder(deps);
}
