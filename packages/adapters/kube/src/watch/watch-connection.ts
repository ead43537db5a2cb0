// SPDX-License-Identifier: Apache-2.0
// What does one watch request tell, until its connection ends?
import { isJsonObject, type KubeObject } from "@patchbay/api";
import { AppError, messageOf } from "@patchbay/core";
import type { Clock } from "@patchbay/core/ports";
import type { Random } from "../pace/backoff.ts";
import type { HttpClient, HttpRequest } from "../connection/http.ts";
import { LineSplitter } from "./line-splitter.ts";
import { toStatusError } from "../connection/status-error.ts";

/** One event of a watch. Source: Kubernetes API concepts, "Efficient detection of changes". */
export interface WatchEvent {
  readonly type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK";
  readonly object: KubeObject;
}

/** Where to watch. */
export interface WatchTarget {
  /** Path of the collection. */
  readonly path: string;
  /** Selectors and `resourceVersion`. */
  readonly query: Readonly<Record<string, string | undefined>>;
}

/** Times of a watch. Silence is none of them: where nothing happens, a server may say nothing for as long as it likes. */
export interface WatchTimes {
  /** Deadline of the answer's headers, milliseconds. */
  readonly headersMs: number;
  /** The server is asked to end a watch after this and up to as much again, seconds. */
  readonly serverSeconds: number;
  /**
   * A watch that goes on so long after the server should have ended it is given up, milliseconds. Only a connection
   * that is dead behind something that still acknowledges, a proxy for example, gets there.
   */
  readonly overdueMs: number;
}

/** Usual times. Source: client-go reflector minWatchTimeout (5 to 10 minutes). */
export const WATCH_TIMES: WatchTimes = {
  headersMs: 15_000,
  serverSeconds: 300,
  overdueMs: 30_000,
};

type WatchRequest = HttpRequest & { readonly signal: AbortSignal };

const TYPES: ReadonlySet<string> = new Set(["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]);

function malformed(reason: string, cause?: unknown): AppError {
  return new AppError("API_MALFORMED", { what: "a watch event", reason }, { cause });
}

function isEvent(event: unknown): event is { type: string; object: KubeObject } {
  return isJsonObject(event) && TYPES.has(String(event["type"])) && isJsonObject(event["object"]);
}

function parseEvent(line: string): { readonly type: string; readonly object: KubeObject } {
  let event: unknown;
  try {
    event = JSON.parse(line);
  } catch (cause) {
    throw malformed(messageOf(cause), cause);
  }
  if (!isEvent(event)) throw malformed("it has no type or no object");
  return event;
}

function toEvent(line: string, path: string): WatchEvent {
  const event = parseEvent(line);
  if (event.type === "ERROR") {
    const code = "code" in event.object ? Number(event.object.code) : 500;
    const answer = { status: code, text: JSON.stringify(event.object) };
    throw toStatusError(answer, { verb: "watch", resource: path, object: "" });
  }
  if (typeof event.object.metadata !== "object") throw malformed("its object has no metadata");
  return event as WatchEvent; // its type is one of the four others
}

function pushTo(splitter: LineSplitter, chunk: Buffer): readonly string[] {
  try {
    return splitter.push(chunk);
  } catch (cause) {
    throw malformed(messageOf(cause), cause);
  }
}

/** The server to watch on, and what spreads the ends of watches over time (`random`, `times`). */
export interface WatchDeps {
  readonly http: HttpClient;
  readonly clock: Clock;
  readonly random: Random;
  readonly times: WatchTimes;
}

/** Opens watches on one server. */
export class WatchConnection {
  readonly #deps: WatchDeps;

  constructor(deps: WatchDeps) {
    this.#deps = deps;
  }

  /**
   * The events of one watch, bookmarks included, until the server ends it. Calls `onOpen` when the server has taken
   * it on, which may be long before the first event.
   * @throws AppError with KUBE_EXPIRED when the resource version is too old, KUBE_UNREACHABLE when the connection
   *   breaks, API_MALFORMED when a line is no event; and with what the server refuses it with.
   */
  async *open(
    target: WatchTarget,
    signal: AbortSignal,
    onOpen: () => void,
  ): AsyncGenerator<WatchEvent> {
    const { clock, random, times } = this.#deps;
    const seconds = Math.round(times.serverSeconds * (1 + random()));
    const overdue = new AbortController();
    const closed = new AbortController();
    const giveUp = (): void => {
      overdue.abort();
    };
    clock.sleep(seconds * 1000 + times.overdueMs, closed.signal).then(giveUp, () => undefined);
    try {
      const ended = AbortSignal.any([signal, overdue.signal]);
      yield* this.#read(this.#request(target, seconds, ended), onOpen);
    } catch (error) {
      if (signal.aborted || !overdue.signal.aborted) throw error;
    } finally {
      closed.abort();
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
        for (const line of pushTo(splitter, chunk)) yield toEvent(line, path);
      }
    } catch (error) {
      throw http.toError(error, request);
    }
    if (splitter.hasPending) throw http.toError(new Error("cut within a line"), request);
  }

  #request({ path, query }: WatchTarget, seconds: number, signal: AbortSignal): WatchRequest {
    return {
      method: "GET",
      path,
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
