// SPDX-License-Identifier: Apache-2.0
// A request that becomes a stream of bytes, by WebSocket: what virtctl's console is. Source: RFC 6455
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { AppError, messageOf } from "@patchbay/core";
import type { WebSocket as Socket } from "ws";
import { headersFor } from "./pool.ts";
import type { KubeConfig } from "./kubeconfig.ts";
import { toStatusError } from "./status-error.ts";

/** What is asked for. */
export interface StreamCall {
  /** With its query, for example `/apis/…/console`. */
  readonly path: string;
  /** Subprotocol that both sides must speak. */
  readonly protocol: string;
  readonly signal?: AbortSignal;
}

/** Time until the server has answered, milliseconds: it asks others itself. */
const ANSWER_MS = 30_000;
/** Longest refusal that is read, characters. */
const REFUSAL_MAX = 64 * 1024;

async function readText(response: IncomingMessage): Promise<string> {
  let text = "";
  response.setEncoding("utf8");
  for await (const chunk of response as AsyncIterable<string>) {
    if (text.length < REFUSAL_MAX) text += chunk;
  }
  return text;
}

/** Resolves when both sides speak the protocol. */
function opened(socket: Socket, { path }: StreamCall, server: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<undefined>();
  socket.on("open", () => {
    resolve(undefined);
  });
  socket.on("unexpected-response", (_request, response) => {
    const status = response.statusCode ?? 0;
    readText(response).then((text) => {
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
 * Opens the stream; it is bytes both ways, and ends with either side.
 * @throws AppError with KUBE_UNREACHABLE, KUBE_CONFIG_INVALID, and what the server's answer means
 */
export async function openStream(config: KubeConfig, call: StreamCall): Promise<Duplex> {
  const { server, tlsServerName: servername, skipTlsVerify, proxyUrl } = config;
  if (proxyUrl !== undefined) {
    const reason = "streams do not go through a proxy-url";
    throw new AppError("KUBE_CONFIG_INVALID", { path: server, reason });
  }
  const credentials = await config.readCredentials();
  const { ca, cert, key } = credentials;
  // Loaded only here: most programs open no stream.
  const { WebSocket, createWebSocketStream } = await import("ws");
  // The types of ws lack `servername`, which it passes to tls.connect.
  const options = {
    ca,
    cert,
    key,
    servername,
    rejectUnauthorized: !skipTlsVerify,
    headers: headersFor(config, credentials),
    handshakeTimeout: ANSWER_MS,
    perMessageDeflate: false,
  };
  const url = `${server.replace(/^http/, "ws")}${call.path}`;
  const socket = new WebSocket(url, call.protocol, options);
  // Made before the answer: the first words may come in one segment with it, and are lost where nobody listens yet.
  const stream = createWebSocketStream(socket);
  stream.on("error", () => stream.destroy());
  await opened(socket, call, server);
  call.signal?.addEventListener("abort", () => {
    socket.close();
  });
  return stream;
}
