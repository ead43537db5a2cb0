// SPDX-License-Identifier: Apache-2.0
// HTTP client of an API server, with time limits, retries and typed errors.
import { printGoJson } from "@patchbay/api/json";
import { AppError, messageOf, type Clock, type Logger } from "@patchbay/base";

import type { Dispatcher } from "undici";
import { createTokenBuckets } from "../pace/backoff.ts";
import type { KubeConfig } from "./kubeconfig.ts";
import { ConnectionPool } from "./pool.ts";

/** Verb and resource of a request, as labels of a metric. Source: Kubernetes endpoints/request RequestInfo */
interface RequestKind {
  readonly verb: "get" | "list" | "watch" | "create" | "update" | "patch" | "delete";
  /** Plural name with the subresource, for example `pods/status`. `none` for paths without a resource. */
  readonly resource: string;
}

interface ClassifiableRequest {
  readonly method: "GET" | keyof typeof VERBS;
  readonly path: string;
  readonly query?: Readonly<Record<string, string | undefined>>;
}

const VERBS = { POST: "create", PUT: "update", PATCH: "patch", DELETE: "delete" } as const;

function resourceSegments(path: string): readonly string[] {
  const [, apiRoot, ...rest] = path.split("/");
  if (apiRoot === "api") return rest.slice(1);
  return apiRoot === "apis" ? rest.slice(2) : [];
}

function isInNamespace([segment, , resource]: readonly string[]): boolean {
  return (
    segment === "namespaces" &&
    resource !== undefined &&
    resource !== "finalize" &&
    resource !== "status"
  );
}

export function classifyRequest(request: ClassifiableRequest): RequestKind {
  const segments = resourceSegments(request.path);
  const [plural = "none", name, subresource] = isInNamespace(segments)
    ? segments.slice(2)
    : segments;
  const resource = subresource === undefined ? plural : `${plural}/${subresource}`;
  if (request.method !== "GET") return { verb: VERBS[request.method], resource };
  if (request.query?.["watch"] !== undefined) return { verb: "watch", resource };
  return { verb: name === undefined && plural !== "none" ? "list" : "get", resource };
}

/** Limits how often the same warning of the server is logged: once an hour. */
const REPEATED_WARNINGS = { burst: 1, refillMs: 3_600_000 };

/** Source: RFC 7234 5.5, Kubernetes apimachinery net.ParseWarningHeaders */
const WARNING_HEADER = /299 \S+ "((?:[^"\\]|\\.)*)"/g;

export function parseWarnings(header: string | readonly string[] | undefined): readonly string[] {
  const values = typeof header === "string" ? [header] : (header ?? []);
  return values.flatMap((value) =>
    [...value.matchAll(WARNING_HEADER)].map(([, text = ""]) => text.replace(/\\(.)/g, "$1")),
  );
}

interface WarnedRequest {
  readonly method: string;
  readonly path: string;
}

type WarningLog = (
  header: string | readonly string[] | undefined,
  { method, path }: WarnedRequest,
) => void;

function createWarningLog(logger: Logger, clock: Clock): WarningLog {
  const buckets = createTokenBuckets(clock, REPEATED_WARNINGS);
  return (header, { method, path }) => {
    for (const reason of parseWarnings(header)) {
      if (!buckets.take(reason)) continue;
      logger.warn("the API server sent a warning", { reason, method, path });
    }
  };
}

export type HttpMethod = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

export interface HttpRequest {
  readonly method: HttpMethod;
  readonly path: string;
  readonly query?: Readonly<Record<string, string | undefined>>;
  readonly body?: unknown;
  readonly contentType?: string;
  readonly accept?: string;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

export interface HttpResponse {
  readonly status: number;
  readonly text: string;
  readonly warnings: readonly string[];
}

interface HttpStream {
  readonly status: number;
  readonly body: AsyncIterable<Buffer> & { text(): Promise<string> };
}

function buildUrl(server: string, request: HttpRequest): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(request.query ?? {})) {
    if (value !== undefined) query.set(name, value);
  }
  const text = query.toString();
  return `${server}${request.path}${text === "" ? "" : `?${text}`}`;
}

function buildHeaders(request: HttpRequest, userAgent: string): Record<string, string> {
  const headers: Record<string, string> = {
    accept: request.accept ?? "application/json",
    "user-agent": userAgent,
  };
  if (request.body !== undefined) {
    headers["content-type"] = request.contentType ?? "application/json";
  }
  return headers;
}

/** `clock` measures the age of credentials. `logger` receives the server's warnings. */
export interface HttpDeps {
  readonly clock: Clock;
  readonly logger: Logger;
  /** Name of the program in the user agent. Default: no name. */
  readonly component?: string;
  readonly onRequest?: (kind: RequestKind) => void;
}

export class HttpClient {
  readonly server: string;
  readonly #pool: ConnectionPool;
  readonly #logWarnings: WarningLog;
  readonly #userAgent: string;
  readonly #onRequest: HttpDeps["onRequest"];

  constructor(config: KubeConfig, { clock, logger, component, onRequest }: HttpDeps) {
    this.server = config.server;
    this.#pool = new ConnectionPool(config, clock);
    this.#logWarnings = createWarningLog(logger, clock);
    this.#userAgent = component === undefined ? "patchbay" : `${component} (patchbay)`;
    this.#onRequest = onRequest;
  }

  /** Sends a request. Retries a GET once if the connection breaks. @throws AppError with KUBE_UNREACHABLE */
  async request(request: HttpRequest): Promise<HttpResponse> {
    return this.#withRetry(request, async (signal) => {
      const response = await this.#send(request, signal);
      const warnings = parseWarnings(response.headers["warning"]);
      return { status: response.statusCode, text: await response.body.text(), warnings };
    });
  }

  /** Sends a request. The time limit applies only until the response headers arrive. @throws AppError with KUBE_UNREACHABLE */
  async stream(request: HttpRequest & { readonly signal: AbortSignal }): Promise<HttpStream> {
    const responseTimeout = new AbortController();
    const deadline = AbortSignal.timeout(request.timeoutMs);
    deadline.onabort = () => {
      responseTimeout.abort(deadline.reason);
    };
    try {
      const signal = AbortSignal.any([request.signal, responseTimeout.signal]);
      const response = await this.#send(request, signal);
      return { status: response.statusCode, body: response.body };
    } catch (error) {
      throw this.toError(error, request, deadline);
    } finally {
      deadline.onabort = null;
    }
  }

  close(): Promise<void> {
    return this.#pool.destroy();
  }

  /** Converts a connection error to an AppError. If the caller aborted the request, returns the reason of the request's signal. */
  toError(error: unknown, request: HttpRequest, timeout?: AbortSignal): unknown {
    if (request.signal?.aborted === true) return request.signal.reason;
    if (error instanceof AppError) return error;
    const isTimedOut = timeout?.aborted === true;
    const message = isTimedOut
      ? `no answer within ${String(request.timeoutMs)} ms`
      : messageOf(error);
    return new AppError("KUBE_UNREACHABLE", { server: this.server, message }, { cause: error });
  }

  async #withRetry<T>(request: HttpRequest, send: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const deadline = AbortSignal.timeout(request.timeoutMs);
    const signal =
      request.signal === undefined ? deadline : AbortSignal.any([deadline, request.signal]);
    try {
      return await send(signal);
    } catch (error) {
      if (request.method !== "GET" || signal.aborted || error instanceof AppError) {
        throw this.toError(error, request, deadline);
      }
    }
    try {
      return await send(signal);
    } catch (error) {
      throw this.toError(error, request, deadline);
    }
  }

  /** Sends a request. If the server rejects the credentials, reads new credentials and retries once. */
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
    this.#onRequest?.(classifyRequest(request));
    const { origin, pathname, search } = new URL(buildUrl(this.server, request));
    const response = await transport.dispatcher.request({
      origin,
      path: `${pathname}${search}`,
      method: request.method,
      headers: { ...buildHeaders(request, this.#userAgent), ...transport.headers },
      body: request.body === undefined ? null : printGoJson(request.body),
      signal,
    });
    // Warnings about a dry run are not logged, because the dry run changes nothing.
    if (request.query?.["dryRun"] === undefined) {
      this.#logWarnings(response.headers["warning"], request);
    }
    return response;
  }
}
