// SPDX-License-Identifier: Apache-2.0
// Everything that one process does with one API server, over one pool of connections.
import type { Duplex } from "node:stream";
import type { KubeObject, ResourceType } from "@patchbay/api";
import type { Store } from "@patchbay/core/ports";
import type { Observable } from "rxjs";
import { systemRandom, type Random } from "./pace/backoff.ts";
import {
  HttpClient,
  type HttpDeps,
  type HttpMethod,
  type HttpResponse,
} from "./connection/http.ts";
import type { KubeConfig } from "./connection/kubeconfig.ts";
import { openStream, type StreamCall } from "./connection/stream.ts";
import { CALL_TIMEOUT_MS, HttpStore } from "./objects/object-store.ts";
import { createReflector, type Reflection, type Wanted } from "./watch/reflector.ts";
import { toStatusError } from "./connection/status-error.ts";
import { WATCH_TIMES, WatchConnection, type WatchTimes } from "./watch/watch-connection.ts";

/** A call of any path, for subresources. */
export interface RawRequest {
  readonly method: HttpMethod;
  /** For example `/apis/subresources.kubevirt.io/v1/namespaces/a/virtualmachines/b/start`. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string | undefined>>;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Default `application/json`. */
  readonly contentType?: string;
  /** Default 10 000. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

/** An answer below 300. */
export interface RawResponse {
  readonly status: number;
  readonly text: string;
  /** What the server warns of beside it. */
  readonly warnings: readonly string[];
}

/** What a client leaves to others; `random` and `watchTimes` are for tests and have defaults. */
export interface ClientDeps extends HttpDeps {
  readonly random?: Random;
  readonly watchTimes?: WatchTimes;
}

/** One API server. */
export interface KubeClient {
  readonly server: string;
  readonly store: Store;
  /** List and watch of a kind as a stream that never ends by itself. */
  reflect<T extends KubeObject>(
    type: ResourceType<T>,
    wanted?: Wanted<T>,
  ): Observable<Reflection<T>>;
  /**
   * Calls any path.
   * @throws AppError with the `KUBE_` codes of Store
   */
  requestRaw(request: RawRequest): Promise<RawResponse>;
  /**
   * The same, with whatever the server answers: a refusal is an answer too.
   * @throws AppError with KUBE_UNREACHABLE
   */
  ask(request: RawRequest): Promise<HttpResponse>;
  /**
   * Opens a stream of bytes.
   * @throws AppError with KUBE_UNREACHABLE, KUBE_CONFIG_INVALID, and what the server's answer means
   */
  openStream(call: StreamCall): Promise<Duplex>;
  /** Ends all connections. */
  close(): Promise<void>;
}

function ask(http: HttpClient, request: RawRequest): Promise<HttpResponse> {
  return http.request({ ...request, timeoutMs: request.timeoutMs ?? CALL_TIMEOUT_MS });
}

async function requestRaw(http: HttpClient, request: RawRequest): Promise<RawResponse> {
  const answer = await ask(http, request);
  if (answer.status < 300) return answer;
  const verb = request.method.toLowerCase();
  throw toStatusError(answer, { verb, resource: request.path, object: "" });
}

/** A client of the server that the configuration names; it connects at the first call. */
export function createKubeClient(config: KubeConfig, deps: ClientDeps): KubeClient {
  const { logger, clock } = deps;
  const random = deps.random ?? systemRandom;
  const http = new HttpClient(config, deps);
  const store = new HttpStore(http);
  const times = deps.watchTimes ?? WATCH_TIMES;
  const watches = new WatchConnection({ http, clock, random, times });
  return {
    server: config.server,
    store,
    reflect: (type, wanted = {}) =>
      createReflector(type, wanted, { store, watches, clock, logger, random }),
    requestRaw: (request) => requestRaw(http, request),
    ask: (request) => ask(http, request),
    openStream: (call) => openStream(config, call),
    close: () => http.close(),
  };
}
