// SPDX-License-Identifier: Apache-2.0
// How does a person who runs `kubectl describe` learn what happened? Events, of which repeats are counted.
import { EVENTS, type KubeEvent, type KubeObject } from "@patchbay/api";
import { isAppError, messageOf } from "@patchbay/core";
import type { Clock, Logger, ObjectKey, Store } from "@patchbay/ports";

/** What is told. */
export interface Note {
  readonly type: "Normal" | "Warning";
  /** Stable word, for example `InterfacePlugged`. */
  readonly reason: string;
  readonly message: string;
}

/** Writes events. */
export interface EventRecorder {
  /** Tells something about an object; returns at once, and a failure to write is only logged. */
  record(object: KubeObject, note: Note): void;
  /** Writes what is waiting. */
  flush(): Promise<void>;
}

/** What a recorder works with. */
export interface RecorderDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Name of the program, the events' source. */
  readonly component: string;
  /** Name of the node, for programs that run on one. */
  readonly host?: string;
}

/** Repeats within this are written together, milliseconds. */
const COALESCE_MS = 5000;
/** After this a repeat is an event of its own, milliseconds. Source: client-go record/events_cache.go. */
const AGGREGATE_MS = 600_000;
/** Most notes that are remembered. Source: client-go record/events_cache.go (4096). */
const REMEMBERED_MAX = 1000;

interface Remembered {
  /** Undefined until the first write has succeeded. */
  key: ObjectKey | undefined;
  readonly object: KubeObject;
  readonly note: Note;
  readonly firstMs: number;
  lastMs: number;
  count: number;
  writtenCount: number;
  isWriting: boolean;
}

class CoalescingRecorder implements EventRecorder {
  readonly #deps: RecorderDeps;
  readonly #remembered = new Map<string, Remembered>();
  readonly #writes = new Set<Promise<void>>();
  #flushing = new AbortController();
  #sequence = 0;

  constructor(deps: RecorderDeps) {
    this.#deps = deps;
  }

  record(object: KubeObject, note: Note): void {
    const nowMs = this.#deps.clock.now();
    const entry = this.#entryFor(object, note, nowMs);
    entry.count += 1;
    entry.lastMs = nowMs;
    if (entry.isWriting) return; // it will be counted by the write that follows
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
    const { namespace, name, uid } = object.metadata;
    const id = JSON.stringify([namespace, name, uid, note.type, note.reason, note.message]);
    const known = this.#remembered.get(id);
    if (known !== undefined && nowMs - known.firstMs < AGGREGATE_MS) return known;
    const entry: Remembered = {
      key: undefined,
      object,
      note,
      firstMs: nowMs,
      lastMs: nowMs,
      count: 0,
      writtenCount: 0,
      isWriting: false,
    };
    this.#remembered.delete(id);
    this.#remembered.set(id, entry);
    const [oldest] = this.#remembered.keys();
    if (this.#remembered.size > REMEMBERED_MAX && oldest !== undefined) {
      this.#remembered.delete(oldest);
    }
    return entry;
  }

  /** Writes at once the first time, then what has come meanwhile, until nothing more has come. */
  async #writeAll(entry: Remembered): Promise<void> {
    if (entry.writtenCount > 0) await this.#coalesce();
    while (entry.writtenCount < entry.count) {
      const count = entry.count;
      await this.#write(entry, count);
      entry.writtenCount = count;
      if (entry.count > count) await this.#coalesce();
    }
  }

  async #coalesce(): Promise<void> {
    const { clock } = this.#deps;
    await clock.sleep(COALESCE_MS, this.#flushing.signal).catch(() => undefined); // flushed: at once
  }

  async #write(entry: Remembered, count: number): Promise<void> {
    try {
      if (entry.key === undefined) await this.#create(entry, count);
      else await this.#update(entry.key, entry, count);
    } catch (error) {
      if (isAppError(error, "KUBE_NOT_FOUND")) entry.key = undefined; // the server forgot it
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
      ...entry.note,
      count,
      firstTimestamp: toTimestamp(entry.firstMs),
      lastTimestamp: toTimestamp(entry.lastMs),
      source: { component, ...(host !== undefined && { host }) },
    };
    await store.create(EVENTS, event);
    entry.key = key;
  }

  async #update(key: ObjectKey, entry: Remembered, count: number): Promise<void> {
    const fields = { count, lastTimestamp: toTimestamp(entry.lastMs) };
    await this.#deps.store.patch(EVENTS, key, { type: "merge", fields });
  }
}

/** RFC 3339 text without fractions. Source: Kubernetes metav1.Time. */
function toTimestamp(ms: number): string {
  // eslint-disable-next-line no-restricted-globals -- formats a time, reads no clock
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}

/** A recorder whose repeats of the same note on the same object are counted in one event. */
export function createEventRecorder(deps: RecorderDeps): EventRecorder {
  return new CoalescingRecorder(deps);
}
