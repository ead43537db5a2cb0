// SPDX-License-Identifier: Apache-2.0
// Watch requests, each with one stream of events.
import { isJsonObject } from "@patchbay/api/json";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { AppError, messageOf, type Clock } from "@patchbay/base";

import type { HttpClient, HttpRequest } from "../connection/http.ts";
import { toStatusError } from "../connection/status-error.ts";
import type { Random } from "../pace/backoff.ts";

const NEWLINE = 0x0a;

/** Maximum length of a line, in bytes, far above the 1.5 MiB of the largest object in etcd. */
const LINE_MAX_BYTES = 32 * 1024 * 1024;

/** Splits bytes into lines before decoding, because a chunk may end within a multi-byte character. */
export class LineSplitter {
  #pending: Buffer[] = [];
  #pendingBytes = 0;

  /** Returns the completed, non-empty lines. @throws RangeError if a line is longer than 32 MiB */
  push(chunk: Buffer): readonly string[] {
    const lines: string[] = [];
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      this.#append(chunk.subarray(start, end));
      const line = this.#takeLine();
      if (line !== "") lines.push(line);
      start = end + 1;
    }
    if (start < chunk.length) this.#append(chunk.subarray(start));
    return lines;
  }

  get hasPending(): boolean {
    return this.#pendingBytes > 0;
  }

  #append(bytes: Buffer): void {
    this.#pendingBytes += bytes.length;
    if (this.#pendingBytes > LINE_MAX_BYTES) throw new RangeError("a line is longer than 32 MiB");
    this.#pending.push(bytes);
  }

  #takeLine(): string {
    const [first] = this.#pending;
    const bytes =
      this.#pending.length === 1 && first !== undefined ? first : Buffer.concat(this.#pending);
    this.#pending = [];
    this.#pendingBytes = 0;
    return bytes.toString("utf8").trimEnd();
  }
}

/** Source: Kubernetes API concepts, "Efficient detection of changes" */
interface WatchEvent {
  readonly type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK";
  readonly object: KubeObject;
}

interface WatchTarget {
  readonly path: string;
  readonly accept?: string;
  readonly query: Readonly<Record<string, string | undefined>>;
}

/** Time limits of a watch. There is no idle timeout, because a watch may be idle for any length of time. */
export interface WatchTimes {
  readonly headersMs: number;
  /** Lower bound, in seconds, of the random timeout that the client requests for each watch. The upper bound is twice as high. */
  readonly serverSeconds: number;
  /** Time after the requested timeout at which the client ends a watch, in ms, because a proxy may hide that the server is dead. */
  readonly overdueMs: number;
}

/** Default time limits. Source: client-go reflector minWatchTimeout (5 to 10 minutes) */
export const WATCH_TIMES: WatchTimes = {
  headersMs: 15_000,
  serverSeconds: 300,
  overdueMs: 30_000,
};

type WatchRequest = HttpRequest & { readonly signal: AbortSignal };

const EVENT_TYPES: ReadonlySet<string> = new Set([
  "ADDED",
  "MODIFIED",
  "DELETED",
  "BOOKMARK",
  "ERROR",
]);

function malformedEvent(reason: string, cause?: unknown): AppError {
  return new AppError("API_MALFORMED", { what: "a watch event", reason }, { cause });
}

function isEvent(event: unknown): event is { type: string; object: KubeObject } {
  return (
    isJsonObject(event) && EVENT_TYPES.has(String(event["type"])) && isJsonObject(event["object"])
  );
}

function parseEvent(line: string): { readonly type: string; readonly object: KubeObject } {
  let event: unknown;
  try {
    event = JSON.parse(line);
  } catch (cause) {
    throw malformedEvent(messageOf(cause), cause);
  }
  if (!isEvent(event)) throw malformedEvent("it has no type or no object");
  return event;
}

function toEvent(line: string, path: string): WatchEvent {
  const event = parseEvent(line);
  if (event.type === "ERROR") {
    const code = "code" in event.object ? Number(event.object.code) : 500;
    const answer = { status: code, text: JSON.stringify(event.object) };
    throw toStatusError(answer, { verb: "watch", resource: path, object: "" });
  }
  if (typeof event.object.metadata !== "object") throw malformedEvent("its object has no metadata");
  return event as WatchEvent;
}

function splitLines(splitter: LineSplitter, chunk: Buffer): readonly string[] {
  try {
    return splitter.push(chunk);
  } catch (cause) {
    throw malformedEvent(messageOf(cause), cause);
  }
}

/** `random` varies the timeouts of watches, so that watches do not end at the same time. */
interface WatchDeps {
  readonly http: HttpClient;
  readonly clock: Clock;
  readonly random: Random;
  readonly times: WatchTimes;
}

export class WatchConnection {
  readonly #deps: WatchDeps;

  constructor(deps: WatchDeps) {
    this.#deps = deps;
  }

  /**
   * Yields the events of one watch, including bookmarks, until the server ends the watch. Calls `onOpen` when the
   * server has accepted the watch.
   * @throws AppError with KUBE_EXPIRED if the resource version is too old, KUBE_UNREACHABLE if the connection breaks,
   * API_MALFORMED if a line is not an event, or the code of the server's status
   */
  async *open(
    target: WatchTarget,
    signal: AbortSignal,
    onOpen: () => void,
  ): AsyncGenerator<WatchEvent> {
    const { clock, random, times } = this.#deps;
    const seconds = Math.round(times.serverSeconds * (1 + random()));
    const overdue = new AbortController();
    const streamEnd = new AbortController();
    const endWatch = (): void => {
      overdue.abort();
    };
    clock.sleep(seconds * 1000 + times.overdueMs, streamEnd.signal).then(endWatch, () => undefined);
    try {
      const stopSignal = AbortSignal.any([signal, overdue.signal]);
      yield* this.#read(this.#request(target, seconds, stopSignal), onOpen);
    } catch (error) {
      if (signal.aborted || !overdue.signal.aborted) throw error;
    } finally {
      streamEnd.abort();
    }
  }

  async *#read(request: WatchRequest, onOpen: () => void): AsyncGenerator<WatchEvent> {
    const { http } = this.#deps;
    const { path } = request;
    const stream = await http.stream(request);
    if (stream.status >= 300) {
      const answer = { status: stream.status, text: await stream.body.text() };
      throw toStatusError(answer, { verb: "watch", resource: path, object: "" });
    }
    onOpen();
    const splitter = new LineSplitter();
    try {
      for await (const chunk of stream.body) {
        for (const line of splitLines(splitter, chunk)) yield toEvent(line, path);
      }
    } catch (error) {
      throw http.toError(error, request);
    }
    if (splitter.hasPending) throw http.toError(new Error("cut within a line"), request);
  }

  #request(target: WatchTarget, seconds: number, signal: AbortSignal): WatchRequest {
    const { query, ...pathAndAccept } = target;
    return {
      method: "GET",
      ...pathAndAccept,
      query: {
        ...query,
        watch: "1",
        allowWatchBookmarks: "true",
        timeoutSeconds: String(seconds),
      },
      timeoutMs: this.#deps.times.headersMs,
      signal,
    };
  }
}
