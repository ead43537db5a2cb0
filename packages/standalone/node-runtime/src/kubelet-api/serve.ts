// SPDX-License-Identifier: Apache-2.0
// The node's HTTPS server for the API server: container logs, exec, attach and health.
import type { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import { Readable, type Duplex } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { Pod } from "@patchbay/api/kubernetes";
import {
  messageOf,
  SHARE_KEYS,
  SharePool,
  type Clock,
  type Logger,
  type PoolLimits,
  type Release,
} from "@patchbay/base";
import {
  certificateInFiles,
  ClientAuthority,
  startServer,
  trustInFile,
  type RunningServer,
} from "@patchbay/daemon";
import type { Cache, ContainerRuntime, ExecPrograms, Files } from "@patchbay/core/interfaces";
import { UID_LABEL } from "../translate/labels.ts";
import {
  ExecSessions,
  SESSIONS_MAX,
  joinStream,
  type JoinedStream,
  type Upgrade,
} from "./exec-streams.ts";
import {
  findLogRun,
  findRunningRun,
  type PodWithContainers,
  parseRequest,
  type ContainerName,
  type KubeletRequest,
  type Refusal,
} from "./request.ts";
import { openLogReader, type ContainerLog, type BeginRead } from "./read-log.ts";

export interface KubeletApiDeps {
  readonly runtime: ContainerRuntime;
  readonly programs: ExecPrograms;
  readonly pods: Cache<Pod>;
  readonly files: Files;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface KubeletApiSettings {
  readonly listenAddress: string;
  readonly port: number;
  readonly certFile: string;
  readonly keyFile: string;
  /** File with the CA of client certificates. Clients without a certificate of this CA are rejected. */
  readonly clientCaFile: string;
  readonly clientNames: readonly string[];
}

interface ServerContext extends KubeletApiDeps {
  readonly signal: AbortSignal;
  readonly authority: ClientAuthority;
  readonly sessions: ExecSessions;
  readonly streams: SharePool;
  readonly logReads: SharePool;
  readonly listeners: Set<() => void>;
}

const UNAUTHORIZED: Refusal = { kind: "refused", code: 401, message: "Unauthorized" };
const UPGRADE_REQUIRED: Refusal = {
  kind: "refused",
  code: 400,
  message: "Upgrade request required",
};

const TOO_MANY_SESSIONS: Refusal = {
  kind: "refused",
  code: 429,
  message: `the container already has ${String(SESSIONS_MAX)} exec sessions: end one of them first`,
};

/** Limits on open log, attach and exec streams. Each has up to three file descriptors. */
const STREAM_LIMITS: PoolLimits = { max: 1024, share: 256, reserve: 128 };
/** Limits on log readers that read at the same time, so that one namespace's readers do not delay others. */
const LOG_READ_LIMITS: PoolLimits = { max: 4, share: 1, reserve: 1 };

function refuseStream({ namespace }: ContainerName): Refusal {
  const message = `namespace ${namespace} has too many open logs, attach and exec streams on this node: end some of them first`;
  return { kind: "refused", code: 429, message };
}

function acquireStream(
  { namespace }: ContainerName,
  { streams }: ServerContext,
): Release | undefined {
  return streams.tryAcquire(SHARE_KEYS.namespace(namespace));
}

function makeBeginRead(
  { namespace }: ContainerName,
  { logReads }: ServerContext,
  signal: AbortSignal,
): BeginRead {
  return async () => {
    const endRead = await logReads.acquire(SHARE_KEYS.namespace(namespace), 1, signal);
    return endRead ?? (() => undefined);
  };
}

function parseAuthorized(
  request: IncomingMessage,
  { authority, clock }: ServerContext,
): KubeletRequest | Refusal {
  if (!authority.isTrustedClient(request)) return UNAUTHORIZED;
  if (!["GET", "POST"].includes(request.method ?? "")) {
    return { kind: "refused", code: 405, message: "405: Method Not Allowed" };
  }
  return parseRequest(request.url ?? "", clock.now());
}

async function findPod(
  target: ContainerName,
  { pods, runtime }: ServerContext,
): Promise<PodWithContainers | undefined> {
  const pod = pods.find({ namespace: target.namespace, name: target.pod });
  if (pod === undefined) return undefined;
  const labels = { [UID_LABEL]: pod.metadata.uid ?? "" };
  return { pod, containers: await runtime.listContainers({ labels }) };
}

function sendText(response: ServerResponse, code: number, text: string): void {
  response.writeHead(code, { "content-type": "text/plain; charset=utf-8" });
  response.end(`${text}\n`);
}

function buildContainerLog(
  id: string,
  path: string,
  { runtime, listeners }: ServerContext,
): ContainerLog {
  return {
    path,
    isRunning: async () => (await runtime.findContainer(id))?.state === "RUNNING",
    onChange: (listener, signal) => {
      listeners.add(listener);
      signal.addEventListener("abort", () => listeners.delete(listener), { once: true });
    },
  };
}

async function sendLog(
  { target, previous, query }: Extract<KubeletRequest, { kind: "logs" }>,
  response: ServerResponse,
  context: ServerContext,
): Promise<void> {
  const disconnection = new AbortController();
  const release = acquireStream(target, context);
  if (release === undefined) {
    const { code, message } = refuseStream(target);
    sendText(response, code, message);
    return;
  }
  response.once("close", () => {
    release();
    disconnection.abort();
  });
  const lookup = findLogRun(await findPod(target, context), target, previous);
  if (lookup.kind === "refused") {
    sendText(response, lookup.code, lookup.message);
    return;
  }
  const path = (await context.runtime.findContainer(lookup.id))?.logPath ?? "";
  const signal = AbortSignal.any([context.signal, disconnection.signal]);
  const log = buildContainerLog(lookup.id, path, context);
  const beginRead = makeBeginRead(target, context, signal);
  const chunks = await openLogReader(query, { log, clock: context.clock, beginRead, signal });
  if (chunks === undefined) {
    sendText(response, 404, `the log of container ${JSON.stringify(target.container)} was deleted`);
    return;
  }
  response.writeHead(200, { "content-type": "text/plain" });
  response.flushHeaders();
  await pipeline(Readable.from(chunks), response);
}

async function sendHealth(response: ServerResponse, { runtime }: ServerContext): Promise<void> {
  const problem = await runtime.findProblem();
  sendText(response, problem === undefined ? 200 : 500, problem ?? "ok");
}

async function sendResponse(
  request: IncomingMessage,
  response: ServerResponse,
  context: ServerContext,
): Promise<void> {
  const parsed = parseAuthorized(request, context);
  switch (parsed.kind) {
    case "refused":
      sendText(response, parsed.code, parsed.message);
      return;
    case "health":
      return sendHealth(response, context);
    case "attach":
    case "exec":
      sendText(response, UPGRADE_REQUIRED.code, UPGRADE_REQUIRED.message);
      return;
    case "logs":
      return sendLog(parsed, response, context);
  }
}

/** Rejects an upgrade. Writes to the socket, because the HTTP server does not manage the socket after an upgrade. */
function rejectUpgrade({ socket }: Upgrade, { code, message }: Refusal): void {
  const body = `${message}\n`;
  socket.end(
    `HTTP/1.1 ${String(code)} Refused\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\n` +
      `content-length: ${String(Buffer.byteLength(body))}\r\n\r\n${body}`,
  );
}

/** Opens a stream and returns its URL. The pod's spec, not the client, decides whether an attached container has a TTY. */
function openStream(
  parsed: Extract<KubeletRequest, { kind: "attach" | "exec" }>,
  containerId: string,
  { runtime, pods }: ServerContext,
): Promise<string> {
  if (parsed.kind === "exec") return runtime.exec({ containerId, ...parsed.query });
  const { namespace, pod, container } = parsed.target;
  const spec = pods.find({ namespace, name: pod })?.spec;
  const tty = spec?.containers.find(({ name }) => name === container)?.tty === true;
  const stderr = parsed.query.stderr && !tty;
  return runtime.attach({ containerId, ...parsed.query, tty, stderr });
}

async function answerUpgrade(upgrade: Upgrade, context: ServerContext): Promise<void> {
  const parsed = parseAuthorized(upgrade.request, context);
  if (parsed.kind !== "exec" && parsed.kind !== "attach") {
    const notFound: Refusal = { kind: "refused", code: 404, message: "404 page not found" };
    rejectUpgrade(upgrade, parsed.kind === "refused" ? parsed : notFound);
    return;
  }
  const release = acquireStream(parsed.target, context);
  if (release === undefined) {
    rejectUpgrade(upgrade, refuseStream(parsed.target));
    return;
  }
  upgrade.socket.once("close", release);
  const lookup = findRunningRun(await findPod(parsed.target, context), parsed.target);
  if (lookup.kind === "refused") {
    rejectUpgrade(upgrade, lookup);
    return;
  }
  const open = async (): Promise<JoinedStream | undefined> =>
    joinStream(upgrade, await openStream(parsed, lookup.id, context), context.signal);
  if (parsed.kind === "attach") await open();
  else if (context.sessions.isFull(lookup.id)) rejectUpgrade(upgrade, TOO_MANY_SESSIONS);
  else await context.sessions.runSession(lookup.id, open);
}

function buildRequestHandler(context: ServerContext) {
  return (request: IncomingMessage, response: ServerResponse): void => {
    sendResponse(request, response, context).catch((error: unknown) => {
      if (response.destroyed || context.signal.aborted) return;
      context.log.warn("request of the API server failed", { err: error });
      if (response.headersSent) response.destroy();
      else sendText(response, 500, messageOf(error));
    });
  };
}

function buildUpgradeHandler(context: ServerContext) {
  return (request: IncomingMessage, socket: Duplex, head: Buffer): void => {
    if (!(socket instanceof Socket)) {
      socket.destroy(); // Never happens, because a TLS server passes only instances of Socket.
      return;
    }
    const upgrade = { request, socket, head };
    socket.on("error", () => socket.destroy());
    answerUpgrade(upgrade, context).catch((error: unknown) => {
      context.log.warn("stream for the API server failed", { err: error });
      rejectUpgrade(upgrade, { kind: "refused", code: 500, message: messageOf(error) });
    });
  };
}

/** @throws AppError with OS_FILE_FAILED when a certificate file cannot be read */
export async function serveKubeletApi(
  deps: KubeletApiDeps,
  settings: KubeletApiSettings,
  signal: AbortSignal,
): Promise<RunningServer> {
  const {
    clientCaFile: caFile,
    clientNames: names,
    certFile,
    keyFile,
    ...listenSettings
  } = settings;
  const authority = new ClientAuthority(trustInFile(deps.files, { caFile, names }));
  const certificate = certificateInFiles(deps.files, { certFile, keyFile });
  const sessions = new ExecSessions(deps, signal);
  await sessions.killOrphans();
  const context: ServerContext = {
    ...deps,
    signal,
    authority,
    sessions,
    streams: new SharePool(STREAM_LIMITS),
    logReads: new SharePool(LOG_READ_LIMITS),
    listeners: new Set(),
  };
  deps.runtime.watch(() => {
    for (const listener of [...context.listeners]) listener();
  }, signal);
  return startServer(
    buildRequestHandler(context),
    { ...listenSettings, certificate, clientAuthorities: [authority], demandsCertificate: true },
    { log: deps.log, signal, onUpgrade: buildUpgradeHandler(context) },
  );
}
