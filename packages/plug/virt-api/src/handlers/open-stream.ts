// SPDX-License-Identifier: Apache-2.0
// A stream of a guest, from the virt-handler of its node.
import { request as httpsRequest } from "node:https";
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import {
  CAPTURE,
  capturePath,
  guestStreamPath,
  HANDLER_SERVER_NAME,
  STREAM_PROTOCOL,
  type CaptureRequest,
  type StreamRequest,
} from "@patchbay/core";
import type { ObjectKey } from "@patchbay/core/ports";
import { parseAnswer, reachHandler, type HandlerAnswer, type HandlerWays } from "./ask-handler.ts";
import type { HandlerAddress } from "./address.ts";
import type { HandlerCredentials } from "./credentials.ts";

/** The stream, or what virt-handler said instead. */
export type OpenedStream = { readonly stream: Duplex } | { readonly refused: HandlerAnswer };

/**
 * Opens it.
 * @throws AppError with API_NODE_UNREACHABLE where virt-handler is not there, does not answer in time, or is not who it
 *   must be
 */
export type OpenHandlerStream = (
  node: string,
  key: ObjectKey,
  request: StreamRequest | CaptureRequest,
) => Promise<OpenedStream>;

/** A launcher answers in milliseconds, or not at all. */
const TIMEOUT_MS = 10_000;
/** After how long a silence TCP asks whether the node still exists, milliseconds. */
const PROBE_AFTER_MS = 30_000;
/** Longest refusal that is read, characters. */
const REFUSAL_MAX = 64 * 1024;

async function readRefusal(response: IncomingMessage): Promise<HandlerAnswer> {
  let text = "";
  response.setEncoding("utf8");
  for await (const chunk of response as AsyncIterable<string>) {
    if (text.length < REFUSAL_MAX) text += chunk;
  }
  return { code: response.statusCode ?? 502, body: parseAnswer(text) };
}

function connect(
  { host, port }: HandlerAddress,
  path: string,
  { certPem: cert, keyPem: key, caPem: ca }: HandlerCredentials,
): Promise<OpenedStream> {
  const { promise, resolve, reject } = Promise.withResolvers<OpenedStream>();
  const call = httpsRequest({
    host,
    port,
    path,
    cert,
    key,
    ca,
    agent: false,
    servername: HANDLER_SERVER_NAME,
    headers: { connection: "Upgrade", upgrade: STREAM_PROTOCOL },
    timeout: TIMEOUT_MS,
  });
  call.on("timeout", () => {
    call.destroy(new Error(`no answer within ${String(TIMEOUT_MS)} ms`));
  });
  call.on("upgrade", (_response, stream, head) => {
    // A guest may be silent for as long as it likes.
    stream.setTimeout(0);
    stream.setKeepAlive(true, PROBE_AFTER_MS);
    stream.on("error", () => stream.destroy());
    if (head.length > 0) stream.unshift(head);
    resolve({ stream });
  });
  call.on("response", (response) => {
    readRefusal(response).then((refused) => {
      resolve({ refused });
    }, reject);
  });
  call.on("error", reject).end();
  return promise;
}

function pathOf(key: ObjectKey, request: StreamRequest | CaptureRequest): string {
  return request.stream === CAPTURE ? capturePath(key, request) : guestStreamPath(key, request);
}

/** Makes it. */
export function createOpenHandlerStream(ways: HandlerWays): OpenHandlerStream {
  return (node, key, request) =>
    reachHandler(ways, node, (address, credentials) =>
      connect(address, pathOf(key, request), credentials),
    );
}
