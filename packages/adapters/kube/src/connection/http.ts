// SPDX-License-Identifier: Apache-2.0
// How does one request reach the API server, with a deadline, and what does failing to reach it mean?
import { printGoJson } from "@patchbay/api";
import { AppError, messageOf } from "@patchbay/core";
import type { Clock, Logger } from "@patchbay/core/ports";
import type { Dispatcher } from "undici";
// Part by part: the index of undici loads fetch, WebSocket, caches and mocks with it. Source: ADR 0004
import send from "undici/lib/api/api-request.js";
import type { KubeConfig } from "./kubeconfig.ts";
import { Pool } from "./pool.ts";
import { kindOfRequest, type RequestKind } from "./request-kind.ts";
import { createWarningLog, parseWarnings, type WarningLog } from "./warnings.ts";

/** Those that the Kubernetes API has. */
export type HttpMethod = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

/** One request. */
export interface HttpRequest {
  readonly method: HttpMethod;
  /** For example `/api/v1/pods`. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string | undefined>>;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Default `application/json`. */
  readonly contentType?: string;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

/** A whole answer. */
export interface HttpResponse {
  readonly status: number;
  readonly text: string;
  /** What the server warns of beside it. */
  readonly warnings: readonly string[];
}

/** An answer whose body is still coming. */
export interface HttpStream {
  readonly status: number;
  readonly body: AsyncIterable<Buffer> & { text(): Promise<string> };
}

function urlOf(server: string, request: HttpRequest): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(request.query ?? {})) {
    if (value !== undefined) query.set(name, value);
  }
  const text = query.toString();
  return `${server}${request.path}${text === "" ? "" : `?${text}`}`;
}

function headersOf(request: HttpRequest, userAgent: string): Record<string, string> {
  const headers: Record<string, string> = { accept: "application/json", "user-agent": userAgent };
  if (request.body !== undefined) {
    headers["content-type"] = request.contentType ?? "application/json";
  }
  return headers;
}

/** `clock` is for the age of credentials, `logger` for what the server warns of. */
export interface HttpDeps {
  readonly clock: Clock;
  readonly logger: Logger;
  /** The program that asks, as the server's logs are to name it; absent: none in particular. */
  readonly component?: string;
  /** Told of each request that is sent, also of one that is sent again. */
  readonly onRequest?: (kind: RequestKind) => void;
}

/** HTTP to one server; what it warns of is logged. */
export class HttpClient {
  readonly server: string;
  readonly #pool: Pool;
  readonly #tellWarnings: WarningLog;
  readonly #userAgent: string;
  readonly #onRequest: HttpDeps["onRequest"];

  constructor(config: KubeConfig, { clock, logger, component, onRequest }: HttpDeps) {
    this.server = config.server;
    this.#pool = new Pool(config, clock);
    this.#tellWarnings = createWarningLog(logger, clock);
    this.#userAgent = component === undefined ? "patchbay" : `${component} (patchbay)`;
    this.#onRequest = onRequest;
  }

  /**
   * Sends and reads the whole answer, whatever its status. A GET whose connection broke is sent once more.
   * @throws AppError with KUBE_UNREACHABLE
   */
  async request(request: HttpRequest): Promise<HttpResponse> {
    return this.#guard(request, async (signal) => {
      const response = await this.#send(request, signal);
      const warnings = parseWarnings(response.headers["warning"]);
      return { status: response.statusCode, text: await response.body.text(), warnings };
    });
  }

  /**
   * Sends and answers as soon as the headers are there; the deadline is for the headers only.
   * The body breaks when `signal` is aborted, never for being silent.
   * @throws AppError with KUBE_UNREACHABLE
   */
  async stream(request: HttpRequest & { readonly signal: AbortSignal }): Promise<HttpStream> {
    const headersLate = new AbortController();
    const late = AbortSignal.timeout(request.timeoutMs);
    late.onabort = () => {
      headersLate.abort(late.reason);
    };
    try {
      const signal = AbortSignal.any([request.signal, headersLate.signal]);
      const response = await this.#send(request, signal);
      return { status: response.statusCode, body: response.body };
    } catch (error) {
      throw this.toError(error, request, late);
    } finally {
      late.onabort = null;
    }
  }

  /** Ends all connections. */
  close(): Promise<void> {
    return this.#pool.destroy();
  }

  /** What a failure of the connection means; the caller's own abort keeps its reason. */
  toError(error: unknown, request: HttpRequest, deadline?: AbortSignal): unknown {
    if (request.signal?.aborted === true) return request.signal.reason;
    if (error instanceof AppError) return error;
    const isLate = deadline?.aborted === true;
    const message = isLate ? `no answer within ${String(request.timeoutMs)} ms` : messageOf(error);
    return new AppError("KUBE_UNREACHABLE", { server: this.server, message }, { cause: error });
  }

  async #guard<T>(request: HttpRequest, run: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const late = AbortSignal.timeout(request.timeoutMs);
    const signal = request.signal === undefined ? late : AbortSignal.any([late, request.signal]);
    try {
      return await run(signal);
    } catch (error) {
      if (request.method !== "GET" || signal.aborted || error instanceof AppError) {
        throw this.toError(error, request, late);
      }
    }
    try {
      return await run(signal);
    } catch (error) {
      throw this.toError(error, request, late);
    }
  }

  /** Sends; when the credentials are refused they are read anew and it is sent once more. */
  async #send(request: HttpRequest, signal: AbortSignal): Promise<Dispatcher.ResponseData> {
    const response = await this.#sendOnce(request, signal);
    if (response.statusCode !== 401) return response;
    await response.body.dump();
    this.#pool.expire();
    return this.#sendOnce(request, signal);
  }

  async #sendOnce(request: HttpRequest, signal: AbortSignal): Promise<Dispatcher.ResponseData> {
    signal.throwIfAborted();
    const transport = await this.#pool.transport();
    this.#onRequest?.(kindOfRequest(request));
    const { origin, pathname, search } = new URL(urlOf(this.server, request));
    const response = await send.call(transport.dispatcher, {
      origin,
      path: `${pathname}${search}`,
      method: request.method,
      headers: { ...headersOf(request, this.#userAgent), ...transport.headers },
      body: request.body === undefined ? null : printGoJson(request.body),
      signal,
    });
    // What is only tried will never be there.
    if (request.query?.["dryRun"] === undefined) {
      this.#tellWarnings(response.headers["warning"], request);
    }
    return response;
  }
}
