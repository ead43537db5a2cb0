// SPDX-License-Identifier: Apache-2.0
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import type { ResourceType } from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { AppError, messageOf } from "@patchbay/base";
import type { Store } from "@patchbay/core/interfaces";
import type { Observable } from "rxjs";
import type { WebSocket as Socket } from "ws";
import {
  HttpClient,
  type HttpDeps,
  type HttpMethod,
  type HttpResponse,
} from "./connection/http.ts";
import type { KubeConfig } from "./connection/kubeconfig.ts";
import { authHeaders } from "./connection/pool.ts";
import { toStatusError } from "./connection/status-error.ts";
import { CALL_TIMEOUT_MS, HttpStore } from "./objects/object-store.ts";
import { type Random, systemRandom } from "./pace/backoff.ts";
import { createReflector, type Reflection, type ReflectOptions } from "./watch/reflector.ts";
import { WATCH_TIMES, WatchConnection, type WatchTimes } from "./watch/watch-connection.ts";

export interface RawRequest {
  readonly method: HttpMethod;
  /** Path, for example `/apis/subresources.kubevirt.io/v1/namespaces/a/virtualmachines/b/start`. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string | undefined>>;
  readonly body?: unknown;
  /** Content type of the body. Default: `application/json`. */
  readonly contentType?: string;
  /** Time limit of the request, in milliseconds. Default: 10 000. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

export interface RawResponse {
  readonly status: number;
  readonly text: string;
  readonly warnings: readonly string[];
}

interface ClientDeps extends HttpDeps {
  readonly random?: Random;
  readonly watchTimes?: WatchTimes;
}

export interface KubeClient {
  readonly server: string;
  readonly store: Store;
  /** Lists and watches the objects of a kind. The stream ends only when the subscriber unsubscribes. */
  reflect<T extends KubeObject>(
    type: ResourceType<T>,
    options?: ReflectOptions<T>,
  ): Observable<Reflection<T>>;
  /** Sends a request. Rejects responses with an error status. @throws AppError with the `KUBE_` codes of Store */
  requestRaw(request: RawRequest): Promise<RawResponse>;
  /** Sends a request and returns the response, whatever its status. @throws AppError with KUBE_UNREACHABLE */
  exchange(request: RawRequest): Promise<HttpResponse>;
  /** Opens a WebSocket as a stream. @throws AppError with KUBE_UNREACHABLE, KUBE_CONFIG_INVALID or the code of an error response */
  openStream(call: StreamCall): Promise<Duplex>;
  close(): Promise<void>;
}

function exchange(http: HttpClient, request: RawRequest): Promise<HttpResponse> {
  return http.request({ ...request, timeoutMs: request.timeoutMs ?? CALL_TIMEOUT_MS });
}

async function requestRaw(http: HttpClient, request: RawRequest): Promise<RawResponse> {
  const response = await exchange(http, request);
  if (response.status < 300) return response;
  const verb = request.method.toLowerCase();
  throw toStatusError(response, { verb, resource: request.path, object: "" });
}

export function createKubeClient(config: KubeConfig, deps: ClientDeps): KubeClient {
  const { logger, clock } = deps;
  const random = deps.random ?? systemRandom;
  const http = new HttpClient(config, deps);
  const store = new HttpStore(http);
  const watchTimes = deps.watchTimes ?? WATCH_TIMES;
  const watches = new WatchConnection({ http, clock, random, times: watchTimes });
  return {
    server: config.server,
    store,
    reflect: (type, options = {}) =>
      createReflector(type, options, { store, watches, clock, logger, random }),
    requestRaw: (request) => requestRaw(http, request),
    exchange: (request) => exchange(http, request),
    openStream: (call) => openStream(config, call),
    close: () => http.close(),
  };
}

interface StreamCall {
  readonly path: string;
  readonly protocol: string;
  readonly signal?: AbortSignal;
}

/** Time limit of the server's response, in milliseconds. It is long, because the API server may first call an aggregated server. */
const RESPONSE_TIMEOUT_MS = 30_000;
const ERROR_TEXT_MAX = 64 * 1024;

async function readResponseText(response: IncomingMessage): Promise<string> {
  let text = "";
  response.setEncoding("utf8");
  for await (const chunk of response as AsyncIterable<string>) {
    if (text.length < ERROR_TEXT_MAX) text += chunk;
  }
  return text;
}

function waitForOpen(socket: Socket, { path }: StreamCall, server: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<undefined>();
  socket.on("open", () => {
    resolve(undefined);
  });
  socket.on("unexpected-response", (_request, response) => {
    const status = response.statusCode ?? 0;
    readResponseText(response).then((text) => {
      reject(toStatusError({ status, text }, { verb: "get", resource: path, object: "" }));
      socket.terminate();
    }, reject);
  });
  socket.on("error", (cause) => {
    reject(new AppError("KUBE_UNREACHABLE", { server, reason: messageOf(cause) }, { cause }));
  });
  return promise;
}

/**
 * Opens a WebSocket as a stream.
 * @throws AppError with KUBE_UNREACHABLE, KUBE_CONFIG_INVALID if the kubeconfig has a proxy-url, or the code of an error response
 */
export async function openStream(config: KubeConfig, call: StreamCall): Promise<Duplex> {
  const { server, tlsServerName: servername, skipTlsVerify, proxyUrl } = config;
  if (proxyUrl !== undefined) {
    const reason = "streams do not go through a proxy-url";
    throw new AppError("KUBE_CONFIG_INVALID", { path: server, reason });
  }
  const credentials = await config.readCredentials();
  const { ca, cert, key } = credentials;
  // The library is loaded on demand, because most programs open no stream.
  const { WebSocket, createWebSocketStream } = await import("ws");
  // The types of ws lack `servername`, but ws passes the option to tls.connect.
  const options = {
    ca,
    cert,
    key,
    servername,
    rejectUnauthorized: !skipTlsVerify,
    headers: authHeaders(config, credentials),
    handshakeTimeout: RESPONSE_TIMEOUT_MS,
    perMessageDeflate: false,
  };
  const url = `${server.replace(/^http/, "ws")}${call.path}`;
  const socket = new WebSocket(url, call.protocol, options);
  // The stream must exist before the response arrives. Otherwise the first data could be lost.
  const stream = createWebSocketStream(socket);
  stream.on("error", () => stream.destroy());
  await waitForOpen(socket, call, server);
  call.signal?.addEventListener("abort", () => {
    socket.close();
  });
  return stream;
}
