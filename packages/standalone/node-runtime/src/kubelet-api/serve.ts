// SPDX-License-Identifier: Apache-2.0
// The node's HTTPS server for the API server: container logs, exec, attach and health.
import type { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import { Readable, type Duplex } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { Pod } from "@patchbay/api";
import { messageOf, type Clock, type Logger } from "@patchbay/base";
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
  type KnownPod,
  parseRequest,
  type ContainerName,
  type KubeletRequest,
  type Refusal,
} from "./request.ts";
import { openLogReader, type ContainerLog } from "./read-log.ts";

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
  /** All other clients are rejected. */
  readonly clientCaFile: string;
  readonly clientNames: readonly string[];
}

interface Serving extends KubeletApiDeps {
  readonly signal: AbortSignal;
  readonly authority: ClientAuthority;
  readonly sessions: ExecSessions;
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

function parseAuthorized(
  request: IncomingMessage,
  { authority, clock }: Serving,
): KubeletRequest | Refusal {
  if (!authority.vouchesFor(request)) return UNAUTHORIZED;
  if (!["GET", "POST"].includes(request.method ?? "")) {
    return { kind: "refused", code: 405, message: "405: Method Not Allowed" };
  }
  return parseRequest(request.url ?? "", clock.now());
}

async function findPod(
  target: ContainerName,
  { pods, runtime }: Serving,
): Promise<KnownPod | undefined> {
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
  { runtime, listeners }: Serving,
): ContainerLog {
  return {
    path,
    isRunning: async () => (await runtime.findContainer(id))?.state === "RUNNING",
    onChange: (changed, signal) => {
      listeners.add(changed);
      signal.addEventListener("abort", () => listeners.delete(changed), { once: true });
    },
  };
}

async function sendLog(
  { target, previous, query }: Extract<KubeletRequest, { kind: "logs" }>,
  response: ServerResponse,
  serving: Serving,
): Promise<void> {
  const disconnected = new AbortController();
  response.once("close", () => {
    disconnected.abort();
  });
  const found = findLogRun(await findPod(target, serving), target, previous);
  if (found.kind === "refused") {
    sendText(response, found.code, found.message);
    return;
  }
  const path = (await serving.runtime.findContainer(found.id))?.logPath ?? "";
  const signal = AbortSignal.any([serving.signal, disconnected.signal]);
  const log = buildContainerLog(found.id, path, serving);
  const chunks = await openLogReader(query, { log, clock: serving.clock, signal });
  if (chunks === undefined) {
    sendText(response, 404, `the log of container ${JSON.stringify(target.container)} was deleted`);
    return;
  }
  response.writeHead(200, { "content-type": "text/plain" });
  response.flushHeaders();
  await pipeline(Readable.from(chunks), response);
}

async function sendHealth(response: ServerResponse, { runtime }: Serving): Promise<void> {
  const problem = await runtime.problem();
  sendText(response, problem === undefined ? 200 : 500, problem ?? "ok");
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  serving: Serving,
): Promise<void> {
  const parsed = parseAuthorized(request, serving);
  switch (parsed.kind) {
    case "refused":
      sendText(response, parsed.code, parsed.message);
      return;
    case "health":
      return sendHealth(response, serving);
    case "attach":
    case "exec":
      sendText(response, UPGRADE_REQUIRED.code, UPGRADE_REQUIRED.message);
      return;
    case "logs":
      return sendLog(parsed, response, serving);
  }
}

/** The HTTP server no longer manages the connection. */
function rejectUpgrade({ socket }: Upgrade, { code, message }: Refusal): void {
  const body = `${message}\n`;
  socket.end(
    `HTTP/1.1 ${String(code)} Refused\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\n` +
      `content-length: ${String(Buffer.byteLength(body))}\r\n\r\n${body}`,
  );
}

/** The pod's spec decides whether an attached container has a terminal, not the client. */
function openStream(
  parsed: Extract<KubeletRequest, { kind: "attach" | "exec" }>,
  containerId: string,
  { runtime, pods }: Serving,
): Promise<string> {
  if (parsed.kind === "exec") return runtime.exec({ containerId, ...parsed.query });
  const { namespace, pod, container } = parsed.target;
  const spec = pods.find({ namespace, name: pod })?.spec;
  const tty = spec?.containers.find(({ name }) => name === container)?.tty === true;
  const stderr = parsed.query.stderr && !tty;
  return runtime.attach({ containerId, ...parsed.query, tty, stderr });
}

async function answerUpgrade(upgrade: Upgrade, serving: Serving): Promise<void> {
  const parsed = parseAuthorized(upgrade.request, serving);
  if (parsed.kind !== "exec" && parsed.kind !== "attach") {
    const notFound: Refusal = { kind: "refused", code: 404, message: "404 page not found" };
    rejectUpgrade(upgrade, parsed.kind === "refused" ? parsed : notFound);
    return;
  }
  const found = findRunningRun(await findPod(parsed.target, serving), parsed.target);
  if (found.kind === "refused") {
    rejectUpgrade(upgrade, found);
    return;
  }
  const open = async (): Promise<JoinedStream | undefined> =>
    joinStream(upgrade, await openStream(parsed, found.id, serving), serving.signal);
  if (parsed.kind === "attach") await open();
  else if (serving.sessions.isFull(found.id)) rejectUpgrade(upgrade, TOO_MANY_SESSIONS);
  else await serving.sessions.runSession(found.id, open);
}

function onRequest(serving: Serving) {
  return (request: IncomingMessage, response: ServerResponse): void => {
    answer(request, response, serving).catch((error: unknown) => {
      if (response.destroyed || serving.signal.aborted) return;
      serving.log.warn("request of the API server failed", { err: error });
      if (response.headersSent) response.destroy();
      else sendText(response, 500, messageOf(error));
    });
  };
}

function onUpgrade(serving: Serving) {
  return (request: IncomingMessage, socket: Duplex, head: Buffer): void => {
    if (!(socket instanceof Socket)) {
      socket.destroy(); // not a TLS server's socket
      return;
    }
    const upgrade = { request, socket, head };
    socket.on("error", () => socket.destroy());
    answerUpgrade(upgrade, serving).catch((error: unknown) => {
      serving.log.warn("stream for the API server failed", { err: error });
      rejectUpgrade(upgrade, { kind: "refused", code: 500, message: messageOf(error) });
    });
  };
}

/** @throws AppError with OS_FILE_FAILED when a certificate file cannot be read. */
export async function serveKubeletApi(
  deps: KubeletApiDeps,
  settings: KubeletApiSettings,
  signal: AbortSignal,
): Promise<RunningServer> {
  const { clientCaFile: caFile, clientNames: names, certFile, keyFile, ...rest } = settings;
  const authority = new ClientAuthority(trustInFile(deps.files, { caFile, names }));
  const certificate = certificateInFiles(deps.files, { certFile, keyFile });
  const sessions = new ExecSessions(deps, signal);
  await sessions.killOrphans();
  const serving: Serving = { ...deps, signal, authority, sessions, listeners: new Set() };
  deps.runtime.watch(() => {
    for (const changed of [...serving.listeners]) changed();
  }, signal);
  return startServer(
    onRequest(serving),
    { ...rest, certificate, clientAuthorities: [authority], demandsCertificate: true },
    { log: deps.log, signal, onUpgrade: onUpgrade(serving) },
  );
}
