// SPDX-License-Identifier: Apache-2.0
// What does one watch request tell, until its connection ends?
import type { KubeObject } from "@patchbay/api";
import { AppError, messageOf } from "@patchbay/core";
import type { Random } from "./backoff.ts";
import type { HttpClient, HttpRequest } from "./http.ts";
import { LineSplitter } from "./line-splitter.ts";
import { toStatusError } from "./status-error.ts";

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

/** Times of a watch. */
export interface WatchTimes {
  /** Deadline of the answer's headers, milliseconds. */
  readonly headersMs: number;
  /** The server ends a watch after this and up to a fifth more, seconds. Source: client-go reflector minWatchTimeout. */
  readonly serverSeconds: number;
  /** Without a byte for this long the connection is taken for dead, milliseconds. */
  readonly silenceMs: number;
}

/** Usual times. A dead connection is noticed after 90 s; a server that sends bookmarks each minute is never cut. */
export const WATCH_TIMES: WatchTimes = {
  headersMs: 15_000,
  serverSeconds: 300,
  silenceMs: 90_000,
};

const TYPES: ReadonlySet<string> = new Set(["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]);

function malformed(reason: string, cause?: unknown): AppError {
  return new AppError("API_MALFORMED", { what: "a watch event", reason }, { cause });
}

function isEvent(event: unknown): event is { type: string; object: KubeObject } {
  return (
    typeof event === "object" &&
    event !== null &&
    "type" in event &&
    TYPES.has(String(event.type)) &&
    "object" in event &&
    typeof event.object === "object" &&
    event.object !== null
  );
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

function toEvent(line: string, target: WatchTarget): WatchEvent {
  const event = parseEvent(line);
  if (event.type === "ERROR") {
    const code = "code" in event.object ? Number(event.object.code) : 500;
    const answer = { status: code, text: JSON.stringify(event.object) };
    throw toStatusError(answer, { verb: "watch", resource: target.path, object: "" });
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

/** Opens watches on one server. */
export class WatchConnection {
  readonly #http: HttpClient;
  readonly #random: Random;
  readonly #times: WatchTimes;

  constructor(http: HttpClient, random: Random, times: WatchTimes = WATCH_TIMES) {
    this.#http = http;
    this.#random = random;
    this.#times = times;
  }

  /**
   * The events of one watch, bookmarks included, until the server ends it.
   * @throws AppError with KUBE_EXPIRED when the resource version is too old, KUBE_UNREACHABLE when the connection
   *   breaks or is silent, API_MALFORMED when a line is no event; and with what the server refuses it with.
   */
  async *open(target: WatchTarget, signal: AbortSignal): AsyncGenerator<WatchEvent> {
    const request = this.#request(target, signal);
    const stream = await this.#http.stream(request, this.#times.silenceMs);
    if (stream.status >= 300) {
      const answer = { status: stream.status, text: await stream.body.text() };
      throw toStatusError(answer, { verb: "watch", resource: target.path, object: "" });
    }
    const splitter = new LineSplitter();
    try {
      for await (const chunk of stream.body) {
        for (const line of pushTo(splitter, chunk)) yield toEvent(line, target);
      }
    } catch (error) {
      throw this.#http.toError(error, request);
    }
    if (splitter.hasPending) throw this.#http.toError(new Error("cut within a line"), request);
  }

  #request(
    target: WatchTarget,
    signal: AbortSignal,
  ): HttpRequest & { readonly signal: AbortSignal } {
    const seconds = this.#times.serverSeconds * (1 + this.#random() / 5);
    return {
      method: "GET",
      path: target.path,
      query: {
        ...target.query,
        watch: "1",
        allowWatchBookmarks: "true",
        timeoutSeconds: String(Math.round(seconds)),
      },
      timeoutMs: this.#times.headersMs,
      signal,
    };
  }
}
