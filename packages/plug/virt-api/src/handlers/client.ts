// SPDX-License-Identifier: Apache-2.0
// Where is the virt-handler of a node?
import { names, PODS, type Pod, parseJson } from "@patchbay/api";
import type { Store, ObjectKey } from "@patchbay/core/ports";
import { request as httpsRequest } from "node:https";
import {
  AppError,
  doctorPath,
  GUEST_REQUESTS,
  guestPath,
  HANDLER_SERVER_NAME,
  messageOf,
  type GuestRequest,
  CAPTURE,
  capturePath,
  guestStreamPath,
  STREAM_PROTOCOL,
  type CaptureRequest,
  type StreamRequest,
} from "@patchbay/core";
import type { HandlerCredentials, ReadCredentials } from "./credentials.ts";
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";

/** A TCP address. */
export interface HandlerAddress {
  readonly host: string;
  readonly port: number;
}

/** Finds it; undefined where none runs there. */
export type FindHandler = (node: string) => Promise<HandlerAddress | undefined>;

/** As the manifests name it. */
const HANDLER_PORT = 8186;
const HANDLERS = "app.kubernetes.io/name=virt-handler";

function isThere({ metadata, status }: Pod): boolean {
  return metadata.deletionTimestamp === undefined && status?.phase === "Running";
}

/** By the pods of the DaemonSet; asked for each time, since such requests are rare. */
export function findByPods(store: Store): FindHandler {
  return async (node) => {
    const { items } = await store.list(PODS, {
      namespace: names.SERVICES_NAMESPACE,
      labelSelector: HANDLERS,
      fieldSelector: `spec.nodeName=${node}`,
    });
    const host = items.find(isThere)?.status?.podIP ?? "";
    return host === "" ? undefined : { host, port: HANDLER_PORT };
  };
}

/** What it answered; an object, also where it refuses. */
export interface HandlerAnswer {
  readonly code: number;
  readonly body: Readonly<Record<string, unknown>>;
}

/**
 * Asks the virt-handler of a node.
 * @throws AppError with API_NODE_UNREACHABLE where it is not there, does not answer in time, or is not who it must be
 */
export type AskHandler = (
  node: string,
  key: ObjectKey,
  request: GuestRequest | DoctorRequest,
) => Promise<HandlerAnswer>;

/** What a guest is asked through its node's doctor. */
interface DoctorRequest {
  /** Name of the interface that is examined. */
  readonly examine: string;
}

/** Ways to the virt-handlers. */
export interface HandlerWays {
  readonly find: FindHandler;
  readonly credentials: ReadCredentials;
}

/** libvirt's own deadlines are shorter. Source: KubeVirt's client of virt-handler. */
const REQUEST_TIMEOUT_MS = 10_000;
/** Longest answer that is read, characters. */
const ANSWER_MAX = 1024 * 1024;

interface Question extends HandlerAddress {
  readonly path: string;
  readonly method: string;
  readonly credentials: HandlerCredentials;
}

function exchange({ host, port, path, method, credentials }: Question): Promise<[number, string]> {
  const { certPem: cert, keyPem: key, caPem: ca } = credentials;
  const { promise, resolve, reject } = Promise.withResolvers<[number, string]>();
  const call = httpsRequest(
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
      // The certificate counts for this connection; the next one may be another.
      agent: false,
    },
    (response) => {
      let said = "";
      response.setEncoding("utf8").on("data", (chunk: string) => {
        said += chunk;
        if (said.length > ANSWER_MAX) call.destroy(new Error("the answer is too long"));
      });
      response.on("end", () => {
        resolve([response.statusCode ?? 0, said]);
      });
    },
  );
  call.on("error", reject).end();
  return promise;
}

/** What a virt-handler has written; empty where it is no object. */
function parseAnswer(text: string): HandlerAnswer["body"] {
  const parsed = parseJson(text);
  return typeof parsed === "object" && parsed !== null && !Array.isArray(parsed)
    ? (parsed as HandlerAnswer["body"]) // an object, of whatever members
    : {};
}

/**
 * Does something with the virt-handler of a node.
 * @throws AppError with API_NODE_UNREACHABLE where none is there, and for whatever `use` throws
 */
async function reachHandler<T>(
  { find, credentials }: HandlerWays,
  node: string,
  use: (address: HandlerAddress, credentials: HandlerCredentials) => Promise<T>,
): Promise<T> {
  const unreachable = (reason: string, cause?: unknown): AppError =>
    new AppError("API_NODE_UNREACHABLE", { node, reason }, { cause });
  const address = await find(node);
  if (address === undefined) throw unreachable("no virt-handler runs there");
  try {
    return await use(address, await credentials());
  } catch (error) {
    throw unreachable(messageOf(error), error);
  }
}

function requestPath(
  key: ObjectKey,
  request: GuestRequest | DoctorRequest,
): Pick<Question, "path" | "method"> {
  if (typeof request !== "string") {
    return { path: doctorPath(key, request.examine), method: "GET" };
  }
  return { path: guestPath(key, request), method: GUEST_REQUESTS[request].toUpperCase() };
}

/** Makes it. */
export function createAskHandler(ways: HandlerWays): AskHandler {
  return (node, key, request) =>
    reachHandler(ways, node, async (address, credentials) => {
      const asked = requestPath(key, request);
      const question = { ...address, ...asked, credentials };
      const [code, text] = await exchange(question);
      return { code, body: parseAnswer(text) };
    });
}

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
const CONNECT_TIMEOUT_MS = 10_000;
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
    timeout: CONNECT_TIMEOUT_MS,
  });
  call.on("timeout", () => {
    call.destroy(new Error(`no answer within ${String(CONNECT_TIMEOUT_MS)} ms`));
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

function streamPath(key: ObjectKey, request: StreamRequest | CaptureRequest): string {
  return request.stream === CAPTURE ? capturePath(key, request) : guestStreamPath(key, request);
}

/** Makes it. */
export function createOpenHandlerStream(ways: HandlerWays): OpenHandlerStream {
  return (node, key, request) =>
    reachHandler(ways, node, (address, credentials) =>
      connect(address, streamPath(key, request), credentials),
    );
}
