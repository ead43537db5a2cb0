// SPDX-License-Identifier: Apache-2.0
// HTTPS client for virt-handler. The client authenticates with a certificate.
import { names, PODS } from "@patchbay/api";
import { parseJson } from "@patchbay/api/json";
import type { Pod } from "@patchbay/api/kubernetes";
import type { Store, ObjectKey } from "@patchbay/core/interfaces";
import { request as httpsRequest } from "node:https";
import { AppError, messageOf } from "@patchbay/base";
import {
  buildDoctorPath,
  GUEST_REQUESTS,
  buildGuestPath,
  HANDLER_SERVER_NAME,
  type GuestRequest,
  CAPTURE,
  buildCapturePath,
  buildGuestStreamPath,
  STREAM_PROTOCOL,
  type CaptureRequest,
  type StreamRequest,
} from "@patchbay/core/guest";
import type { PictureOptions } from "../screen/rfb.ts";
import type { HandlerCredentials, ReadCredentials } from "./credentials.ts";
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";

export interface HandlerAddress {
  readonly host: string;
  readonly port: number;
}

export type FindHandler = (node: string) => Promise<HandlerAddress | undefined>;

const HANDLER_PORT = 8186;
const HANDLER_SELECTOR = "app.kubernetes.io/name=virt-handler";

function isRunning({ metadata, status }: Pod): boolean {
  return metadata.deletionTimestamp === undefined && status?.phase === "Running";
}

/** Finds virt-handler's pod on the node. Lists pods at each call instead of watching them, because calls are rare. */
export function findByPods(store: Store): FindHandler {
  return async (node) => {
    const { items } = await store.list(PODS, {
      namespace: names.SERVICES_NAMESPACE,
      labelSelector: HANDLER_SELECTOR,
      fieldSelector: `spec.nodeName=${node}`,
    });
    const host = items.find(isRunning)?.status?.podIP ?? "";
    return host === "" ? undefined : { host, port: HANDLER_PORT };
  };
}

export interface HandlerAnswer {
  readonly code: number;
  readonly body: Readonly<Record<string, unknown>>;
}

/** Sends a request to virt-handler. @throws AppError with API_NODE_UNREACHABLE if virt-handler does not respond */
export type SendToHandler = (
  node: string,
  key: ObjectKey,
  request: GuestRequest | DoctorRequest,
) => Promise<HandlerAnswer>;

interface DoctorRequest {
  readonly examine: string;
}

export interface HandlerAccess {
  readonly find: FindHandler;
  readonly credentials: ReadCredentials;
}

/** Time limit of a request, in milliseconds. Source: KubeVirt's client of virt-handler. */
const REQUEST_TIMEOUT_MS = 10_000;
const ANSWER_LENGTH_MAX = 1024 * 1024;

interface HandlerCall extends HandlerAddress {
  readonly path: string;
  readonly method: string;
  readonly credentials: HandlerCredentials;
}

function sendRequest({
  host,
  port,
  path,
  method,
  credentials,
}: HandlerCall): Promise<[number, string]> {
  const { certPem: cert, keyPem: key, caPem: ca } = credentials;
  const { promise, resolve, reject } = Promise.withResolvers<[number, string]>();
  const clientRequest = httpsRequest(
    {
      host,
      port,
      path,
      method,
      cert,
      key,
      ca,
      servername: HANDLER_SERVER_NAME,
      signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
      // Each request opens a new connection, so that renewed certificates are used.
      agent: false,
    },
    (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (chunk: string) => {
        text += chunk;
        if (text.length > ANSWER_LENGTH_MAX)
          clientRequest.destroy(new Error("the response is too long"));
      });
      response.on("end", () => {
        resolve([response.statusCode ?? 0, text]);
      });
    },
  );
  clientRequest.on("error", reject).end();
  return promise;
}

/** Parses the body. Returns an empty object if the body is not a JSON object. */
function parseAnswer(text: string): HandlerAnswer["body"] {
  const parsed = parseJson(text);
  return typeof parsed === "object" && parsed !== null && !Array.isArray(parsed)
    ? (parsed as HandlerAnswer["body"])
    : {};
}

/** Calls `use` with the node's virt-handler. @throws AppError with API_NODE_UNREACHABLE if the node has no virt-handler or `use` fails */
export async function withHandler<T>(
  { find, credentials }: HandlerAccess,
  node: string,
  use: (address: HandlerAddress, credentials: HandlerCredentials) => Promise<T>,
): Promise<T> {
  const toUnreachableError = (reason: string, cause?: unknown): AppError =>
    new AppError("API_NODE_UNREACHABLE", { node, reason }, { cause });
  const address = await find(node);
  if (address === undefined) throw toUnreachableError("no virt-handler runs there");
  try {
    return await use(address, await credentials());
  } catch (error) {
    throw toUnreachableError(messageOf(error), error);
  }
}

function buildRequestPath(
  key: ObjectKey,
  request: GuestRequest | DoctorRequest,
): Pick<HandlerCall, "path" | "method"> {
  if (typeof request !== "string") {
    return { path: buildDoctorPath(key, request.examine), method: "GET" };
  }
  return { path: buildGuestPath(key, request), method: GUEST_REQUESTS[request].toUpperCase() };
}

export function createSendToHandler(access: HandlerAccess): SendToHandler {
  return (node, key, request) =>
    withHandler(access, node, async (address, credentials) => {
      const route = buildRequestPath(key, request);
      const call = { ...address, ...route, credentials };
      const [code, text] = await sendRequest(call);
      return { code, body: parseAnswer(text) };
    });
}

export type OpenedStream = { readonly stream: Duplex } | { readonly refused: HandlerAnswer };

/** Opens a stream to virt-handler. @throws AppError with API_NODE_UNREACHABLE if virt-handler does not respond */
export type OpenHandlerStream = (
  node: string,
  key: ObjectKey,
  request: StreamRequest | CaptureRequest,
) => Promise<OpenedStream>;

export type Screenshot = { readonly png: Uint8Array } | { readonly refused: HandlerAnswer };

/** Captures the screen of a guest. @throws AppError with API_NODE_UNREACHABLE or API_SCREEN_UNREADABLE */
export type TakeScreenshot = (
  node: string,
  key: ObjectKey,
  options: PictureOptions,
) => Promise<Screenshot>;

const CONNECT_TIMEOUT_MS = 10_000;
/** Idle time in milliseconds before TCP keepalive probes, which detect a dead node. */
const PROBE_AFTER_MS = 30_000;
/** Length of a rejection's text after which further chunks are discarded. */
const REFUSAL_LENGTH_MAX = 64 * 1024;

async function readRefusal(response: IncomingMessage): Promise<HandlerAnswer> {
  let text = "";
  response.setEncoding("utf8");
  for await (const chunk of response as AsyncIterable<string>) {
    if (text.length < REFUSAL_LENGTH_MAX) text += chunk;
  }
  return { code: response.statusCode ?? 502, body: parseAnswer(text) };
}

export function connectStream(
  { host, port }: HandlerAddress,
  path: string,
  { certPem: cert, keyPem: key, caPem: ca }: HandlerCredentials,
): Promise<OpenedStream> {
  const { promise, resolve, reject } = Promise.withResolvers<OpenedStream>();
  const clientRequest = httpsRequest({
    host,
    port,
    path,
    cert,
    key,
    ca,
    agent: false,
    servername: HANDLER_SERVER_NAME,
    headers: { connection: "Upgrade", upgrade: STREAM_PROTOCOL },
    timeout: CONNECT_TIMEOUT_MS,
  });
  clientRequest.on("timeout", () => {
    clientRequest.destroy(new Error(`no answer within ${String(CONNECT_TIMEOUT_MS)} ms`));
  });
  clientRequest.on("upgrade", (_response, stream, head) => {
    stream.setTimeout(0);
    stream.setKeepAlive(true, PROBE_AFTER_MS);
    stream.on("error", () => stream.destroy());
    if (head.length > 0) stream.unshift(head);
    resolve({ stream });
  });
  clientRequest.on("response", (response) => {
    readRefusal(response).then((refused) => {
      resolve({ refused });
    }, reject);
  });
  clientRequest.on("error", reject).end();
  return promise;
}

export function buildStreamPath(key: ObjectKey, request: StreamRequest | CaptureRequest): string {
  return request.stream === CAPTURE
    ? buildCapturePath(key, request)
    : buildGuestStreamPath(key, request);
}

export function createOpenHandlerStream(access: HandlerAccess): OpenHandlerStream {
  return (node, key, request) =>
    withHandler(access, node, (address, credentials) =>
      connectStream(address, buildStreamPath(key, request), credentials),
    );
}
