// SPDX-License-Identifier: Apache-2.0
// What the API server asks a node for: logs of containers, programs in them, and whether the node is well.
import type { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import { Readable, type Duplex } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { Pod } from "@patchbay/api";
import { messageOf } from "@patchbay/core";
import {
  certificateInFiles,
  ClientAuthority,
  startServer,
  trustInFile,
  type RunningServer,
} from "@patchbay/daemon";
import type {
  Cache,
  Clock,
  ContainerRuntime,
  ExecPrograms,
  Files,
  Logger,
} from "@patchbay/core/ports";
import { UID_LABEL } from "../translate/labels.ts";
import { ExecSessions, SESSIONS_MAX } from "./exec-sessions.ts";
import { joinStream, type JoinedStream, type Upgrade } from "./exec.ts";
import { findLogged, findRunning, type KnownPod } from "./find-container.ts";
import { openLog, type ContainerLog } from "./logs/read-log.ts";
import { parseRequest, type ContainerName, type KubeletRequest, type Refusal } from "./request.ts";

/** What is served from. */
export interface KubeletApiDeps {
  readonly runtime: ContainerRuntime;
  readonly programs: ExecPrograms;
  /** The pods of this node. */
  readonly pods: Cache<Pod>;
  readonly files: Files;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Where is served, and to whom. */
export interface KubeletApiSettings {
  readonly listenAddress: string;
  /** 0 takes a free one. */
  readonly port: number;
  /** The node's certificate, which knows it by its name, and its key. */
  readonly certFile: string;
  readonly keyFile: string;
  /** Authority of the API server's certificate, and its common names; nobody else is served. */
  readonly clientCaFile: string;
  readonly clientNames: readonly string[];
}

/** The server's own, for as long as it serves. */
interface Serving extends KubeletApiDeps {
  readonly signal: AbortSignal;
  readonly authority: ClientAuthority;
  readonly sessions: ExecSessions;
  /** Told of each change in the runtime. */
  readonly listeners: Set<() => void>;
}

const STRANGER: Refusal = { kind: "refused", code: 401, message: "Unauthorized" };
const UPGRADE_REQUIRED: Refusal = {
  kind: "refused",
  code: 400,
  message: "Upgrade request required",
};

const FULL: Refusal = {
  kind: "refused",
  code: 429,
  message: `the container already has ${String(SESSIONS_MAX)} exec sessions: end one of them first`,
};

function understand(
  request: IncomingMessage,
  { authority, clock }: Serving,
): KubeletRequest | Refusal {
  if (!authority.vouchesFor(request)) return STRANGER;
  if (!["GET", "POST"].includes(request.method ?? "")) {
    return { kind: "refused", code: 405, message: "405: Method Not Allowed" };
  }
  return parseRequest(request.url ?? "", clock.now());
}

async function findPod(
  of: ContainerName,
  { pods, runtime }: Serving,
): Promise<KnownPod | undefined> {
  const pod = pods.find({ namespace: of.namespace, name: of.pod });
  if (pod === undefined) return undefined;
  const labels = { [UID_LABEL]: pod.metadata.uid ?? "" };
  return { pod, containers: await runtime.listContainers({ labels }) };
}

function sendText(response: ServerResponse, code: number, text: string): void {
  response.writeHead(code, { "content-type": "text/plain; charset=utf-8" });
  response.end(`${text}\n`);
}

function logOf(id: string, path: string, { runtime, listeners }: Serving): ContainerLog {
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
  { of, previous, query }: Extract<KubeletRequest, { kind: "logs" }>,
  response: ServerResponse,
  serving: Serving,
): Promise<void> {
  const gone = new AbortController();
  // Whoever asks may leave at any time from now on.
  response.once("close", () => {
    gone.abort();
  });
  const found = findLogged(await findPod(of, serving), of, previous);
  if (found.kind === "refused") {
    sendText(response, found.code, found.message);
    return;
  }
  const path = (await serving.runtime.findContainer(found.id))?.logPath ?? "";
  const signal = AbortSignal.any([serving.signal, gone.signal]);
  const log = logOf(found.id, path, serving);
  const chunks = await openLog(query, { log, clock: serving.clock, signal });
  if (chunks === undefined) {
    sendText(response, 404, `the log of container ${JSON.stringify(of.container)} is gone`);
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
  const wanted = understand(request, serving);
  switch (wanted.kind) {
    case "refused":
      sendText(response, wanted.code, wanted.message);
      return;
    case "health":
      return sendHealth(response, serving);
    case "attach":
    case "exec":
      sendText(response, UPGRADE_REQUIRED.code, UPGRADE_REQUIRED.message);
      return;
    case "logs":
      return sendLog(wanted, response, serving);
  }
}

/** Refuses on a connection that is no longer an HTTP server's. */
function refuseUpgrade({ socket }: Upgrade, { code, message }: Refusal): void {
  const body = `${message}\n`;
  socket.end(
    `HTTP/1.1 ${String(code)} Refused\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\n` +
      `content-length: ${String(Buffer.byteLength(body))}\r\n\r\n${body}`,
  );
}

/** The runtime's stream. Whether a container has a terminal is the container's, not the client's, to say. */
function streamOf(
  wanted: Extract<KubeletRequest, { kind: "attach" | "exec" }>,
  containerId: string,
  { runtime, pods }: Serving,
): Promise<string> {
  if (wanted.kind === "exec") return runtime.exec({ containerId, ...wanted.query });
  const { namespace, pod, container } = wanted.of;
  const spec = pods.find({ namespace, name: pod })?.spec;
  const tty = spec?.containers.find(({ name }) => name === container)?.tty === true;
  const stderr = wanted.query.stderr && !tty;
  return runtime.attach({ containerId, ...wanted.query, tty, stderr });
}

async function answerUpgrade(upgrade: Upgrade, serving: Serving): Promise<void> {
  const wanted = understand(upgrade.request, serving);
  if (wanted.kind !== "exec" && wanted.kind !== "attach") {
    const missing: Refusal = { kind: "refused", code: 404, message: "404 page not found" };
    refuseUpgrade(upgrade, wanted.kind === "refused" ? wanted : missing);
    return;
  }
  const found = findRunning(await findPod(wanted.of, serving), wanted.of);
  if (found.kind === "refused") {
    refuseUpgrade(upgrade, found);
    return;
  }
  const open = async (): Promise<JoinedStream | undefined> =>
    joinStream(upgrade, await streamOf(wanted, found.id, serving), serving.signal);
  if (wanted.kind === "attach") await open();
  else if (serving.sessions.isFull(found.id)) refuseUpgrade(upgrade, FULL);
  else await serving.sessions.begin(found.id, open);
}

function onRequest(serving: Serving) {
  return (request: IncomingMessage, response: ServerResponse): void => {
    answer(request, response, serving).catch((error: unknown) => {
      if (response.destroyed || serving.signal.aborted) return; // whoever asked has left
      serving.log.warn("request of the API server failed", { err: error });
      if (response.headersSent) response.destroy();
      else sendText(response, 500, messageOf(error));
    });
  };
}

function onUpgrade(serving: Serving) {
  return (request: IncomingMessage, socket: Duplex, head: Buffer): void => {
    if (!(socket instanceof Socket)) {
      socket.destroy(); // not of a server over TLS
      return;
    }
    const upgrade = { request, socket, head };
    socket.on("error", () => socket.destroy());
    answerUpgrade(upgrade, serving).catch((error: unknown) => {
      serving.log.warn("stream of the API server failed", { err: error });
      refuseUpgrade(upgrade, { kind: "refused", code: 500, message: messageOf(error) });
    });
  };
}

/**
 * Serves until the signal is aborted; what is followed and what is joined ends then.
 * @throws AppError with OS_FILE_FAILED when a certificate file cannot be read.
 */
export async function serveKubeletApi(
  deps: KubeletApiDeps,
  settings: KubeletApiSettings,
  signal: AbortSignal,
): Promise<RunningServer> {
  const { clientCaFile: caFile, clientNames: names, certFile, keyFile, ...rest } = settings;
  const authority = new ClientAuthority(trustInFile(deps.files, { caFile, names }));
  const certificate = certificateInFiles(deps.files, { certFile, keyFile });
  const sessions = new ExecSessions(deps, signal);
  await sessions.endLeft();
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
