// SPDX-License-Identifier: Apache-2.0
// Serves the subresources console, vnc, portforward and capture, which connect WebSockets to a guest.
import { STATUS_CODES, type IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import {
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type VirtualMachineInstance,
} from "@patchbay/api";
import {
  CAPTURE,
  findForwardAddress,
  checkGuestStream,
  parseCaptureQuery,
  checkRunning,
  STREAM_PROTOCOL,
  type CaptureRequest,
  type StreamRequest,
} from "@patchbay/core/guest";
import { messageOf, type Clock } from "@patchbay/base";

import type { ClientAuthority, UpgradeListener } from "@patchbay/daemon";
import { WebSocketServer } from "ws";
import {
  findRemoteUser,
  type User,
  toErrorAnswer,
  toFailureAnswer,
  toNodeAnswer,
  toNotFoundAnswer,
  toRefusalAnswer,
  type ObjectRef,
  type Answer,
} from "../http/calls.ts";
import type { Deps } from "../deps.ts";
import { toStreamKind, type ActiveStreams } from "./active.ts";
import { openForward, GOING_AWAY, joinSocket, type Traffic } from "./connections.ts";
import { parseStreamUrl, type ForwardRequest, type StreamTarget } from "./paths.ts";

const FRAME_MAX_BYTES = 1024 * 1024;

export interface StreamDeps {
  readonly deps: Deps;
  readonly active: ActiveStreams;
  readonly frontProxy: ClientAuthority | undefined;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

interface UpgradeRequest {
  readonly request: IncomingMessage;
  readonly socket: Duplex;
  readonly head: Buffer;
}

function sendAnswer(socket: Duplex, { code, body }: Answer): void {
  const text = JSON.stringify(body);
  const head = [
    `HTTP/1.1 ${String(code)} ${STATUS_CODES[code] ?? ""}`,
    "content-type: application/json",
    `content-length: ${String(Buffer.byteLength(text))}`,
    "connection: close",
  ];
  socket.end(`${head.join("\r\n")}\r\n\r\n${text}`);
}

type GuestStreamResult = { readonly guest: Duplex } | { readonly answer: Answer };

async function openPort(
  address: string,
  forward: ForwardRequest,
  objectRef: ObjectRef,
): Promise<GuestStreamResult> {
  try {
    return { guest: await openForward(address, forward) };
  } catch (error) {
    const { port, protocol } = forward;
    const message = `dialing VM: port ${String(port)}/${protocol} of the guest cannot be reached: ${messageOf(error)}`;
    return { answer: toFailureAnswer({ code: 500, message, objectRef }) };
  }
}

interface StreamCall {
  readonly target: StreamTarget;
  readonly user: User;
}

interface Subject {
  readonly vmi: VirtualMachineInstance;
  readonly objectRef: ObjectRef;
}

async function openGuest(
  { vmi, objectRef }: Subject,
  request: StreamRequest | CaptureRequest,
  deps: Deps,
): Promise<GuestStreamResult> {
  const problem =
    request.stream === CAPTURE ? checkRunning(vmi) : checkGuestStream(vmi, request.stream);
  if (problem !== undefined) return { answer: toRefusalAnswer(problem, objectRef) };
  const { namespace = "", name } = vmi.metadata;
  const opened = await deps.openHandlerStream(
    vmi.status?.nodeName ?? "",
    { namespace, name },
    request,
  );
  if ("stream" in opened) return { guest: opened.stream };
  return { answer: toNodeAnswer(opened.refused, objectRef) };
}

function openCapture(
  query: string,
  { subject, user }: { readonly subject: Subject; readonly user: User },
  deps: Deps,
): Promise<GuestStreamResult> {
  const parsed = parseCaptureQuery(query);
  if ("options" in parsed) {
    const request = { stream: CAPTURE, options: parsed.options, user: user.name } as const;
    return openGuest(subject, request, deps);
  }
  const { objectRef } = subject;
  const message = parsed.problems.join("; ");
  return Promise.resolve({ answer: toFailureAnswer({ code: 400, message, objectRef }) });
}

async function openTarget({ target, user }: StreamCall, deps: Deps): Promise<GuestStreamResult> {
  const { namespace, name } = target;
  const type = target.isVm ? VIRTUAL_MACHINES : VIRTUAL_MACHINE_INSTANCES;
  const objectRef = { type, name };
  const vmi = await deps.store.find(VIRTUAL_MACHINE_INSTANCES, { namespace, name });
  if (vmi === undefined) return { answer: toNotFoundAnswer(objectRef) };
  const subject = { vmi, objectRef };
  if (target.kind === "guest") return openGuest(subject, target, deps);
  if (target.kind === "capture") return openCapture(target.query, { subject, user }, deps);
  const forwardAddress = findForwardAddress(vmi);
  return "refusal" in forwardAddress
    ? { answer: toRefusalAnswer(forwardAddress.refusal, objectRef) }
    : openPort(forwardAddress.address, target, objectRef);
}

function buildTargetFields(target: StreamTarget): Readonly<Record<string, unknown>> {
  if (target.kind === "forward") return { port: target.port, protocol: target.protocol };
  return target.kind === "capture" ? { query: target.query } : {};
}

function buildLogFields({ target, user }: StreamCall): Readonly<Record<string, unknown>> {
  const vmi = `${target.namespace}/${target.name}`;
  return { vmi, stream: toStreamKind(target), ...buildTargetFields(target), user: user.name };
}

const WEB_SOCKETS = new WebSocketServer({
  noServer: true,
  clientTracking: false,
  maxPayload: FRAME_MAX_BYTES,
  handleProtocols: (offered) => (offered.has(STREAM_PROTOCOL) ? STREAM_PROTOCOL : false),
});

/**
 * Upgrades the request to a WebSocket and connects it to `guest` until one closes. Resolves with the traffic, or `{}` if the upgrade fails.
 */
function joinGuest(
  { request, socket, head }: UpgradeRequest,
  guest: Duplex,
  { clock, signal }: StreamDeps,
): Promise<Partial<Traffic>> {
  // The client may have disconnected before the guest's stream was open.
  if (socket.destroyed) {
    guest.destroy();
    return Promise.resolve({});
  }
  const { promise, resolve } = Promise.withResolvers<Partial<Traffic>>();
  // handleUpgrade closes the socket if the client requests no WebSocket upgrade.
  socket.once("close", () => {
    guest.destroy();
    resolve({});
  });
  WEB_SOCKETS.handleUpgrade(request, socket, head, (webSocket) => {
    const closeSocket = (): void => {
      webSocket.close(GOING_AWAY, "virt-api stops");
    };
    signal.addEventListener("abort", closeSocket, { once: true });
    void joinSocket(webSocket, guest, clock).then((traffic) => {
      signal.removeEventListener("abort", closeSocket);
      resolve(traffic);
    });
  });
  return promise;
}

async function runStream(
  upgrade: UpgradeRequest,
  call: StreamCall,
  streams: StreamDeps,
): Promise<void> {
  const { deps, clock } = streams;
  const opened = await openTarget(call, deps);
  if ("answer" in opened) {
    sendAnswer(upgrade.socket, opened.answer);
    return;
  }
  const fields = buildLogFields(call);
  const startMs = clock.monotonicMs();
  deps.log.info("opened a stream to a guest", fields);
  const traffic = await joinGuest(upgrade, opened.guest, streams);
  const seconds = Math.round((clock.monotonicMs() - startMs) / 1000);
  deps.log.info("closed a stream to a guest", { ...fields, seconds, ...traffic });
}

function toRejection(code: 401 | 404 | 429): Answer {
  const message = {
    401: "Unauthorized",
    404: "the server could not find the requested resource",
    429: "too many streams are open; close one, or try again later",
  }[code];
  return toFailureAnswer({ code, message });
}

async function serve(upgrade: UpgradeRequest, streams: StreamDeps): Promise<void> {
  const { request, socket } = upgrade;
  const user = findRemoteUser(streams.frontProxy, request);
  const target = parseStreamUrl(request.url ?? "");
  if (user === undefined || target === undefined) {
    sendAnswer(socket, toRejection(user === undefined ? 401 : 404));
    return;
  }
  const unregister = streams.active.register(target);
  if (unregister === undefined) {
    sendAnswer(socket, toRejection(429));
    return;
  }
  try {
    await runStream(upgrade, { target, user }, streams);
  } finally {
    unregister();
  }
}

export function serveStreams(streams: StreamDeps): UpgradeListener {
  return (request, socket, head) => {
    socket.on("error", () => socket.destroy());
    serve({ request, socket, head }, streams).catch((error: unknown) => {
      streams.deps.log.warn("a stream failed", { path: request.url, err: error });
      sendAnswer(socket, toErrorAnswer(error));
    });
  };
}
