// SPDX-License-Identifier: Apache-2.0
// The server for the container runtime's CNI plugin, on a unix socket that only root can use.
import {
  CNI_CODES,
  type PluginCall,
  parsePluginCall,
  toPluginFailure,
  printResult,
} from "@patchbay/cni";
import { AppError, isAppError, limitConnections, messageOf, type PoolLimits } from "@patchbay/base";
import { listLinks } from "../reconcilers/pod/attachment/netns.ts";
import { findVmiOf } from "../reconcilers/pod/observe.ts";
import { checkAttachment } from "../reconcilers/upkeep/attachments.ts";
import type { RuntimeDeps } from "./deps.ts";
import { readFacts, listRows } from "./facts.ts";
import { parseJson } from "@patchbay/api/json";
import type { CniResult, Files } from "@patchbay/core/interfaces";
import { addPod } from "./add.ts";
import { delegate } from "./delegate.ts";
import { collectGarbage, removePod } from "./release.ts";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { dirname } from "node:path";
import { createHttpServer } from "@patchbay/daemon";
import { isSocketServed, publishSocket, touchFile } from "@patchbay/os";

/** Error code of a failed CHECK. Plugins may choose codes from 100 on. Source: CNI SPEC 1.1 section 5. */
const CNI_CHECK_FAILED = 100;

function reject(reason: string): never {
  throw new AppError("CNI_CALL_INVALID", { reason, cniCode: CNI_CHECK_FAILED });
}

/** Answers CHECK. For a launcher, checks only that the NICs exist, because their addresses have moved to the guest. */
function checkPod(call: PluginCall, deps: RuntimeDeps): Promise<void> {
  const { containerId, pod } = call;
  const uid = pod?.uid ?? "";
  return deps.podMutex.runExclusive(uid, async () => {
    const facts = await readFacts(call, deps);
    const rows = (await listRows({ uid, containerId }, deps)).filter(
      ({ state }) => state === "attached",
    );
    if (!rows.some(({ isDefault }) => isDefault === true)) reject("it has no default network");
    const nics = new Set((await listLinks(facts, deps)).map(({ name }) => name));
    const missing = rows.filter(({ request }) => !nics.has(request.interfaceName));
    const names = missing.map(({ network, request }) => `${request.interfaceName} of ${network}`);
    if (names.length > 0) reject(`the sandbox lacks ${names.join(", ")}`);
    if ((await findVmiOf(facts.pod, deps)) !== undefined) return;
    for (const row of rows) await checkAttachment(row, deps);
  });
}

/** Converts an error of STATUS to a CNI code: limited connectivity if the plugin reported this code, otherwise not available. */
function toReadinessCode(error: unknown): number {
  const isLimited = isAppError(error) && error.details["cniCode"] === CNI_CODES.limitedConnectivity;
  return isLimited ? CNI_CODES.limitedConnectivity : CNI_CODES.notAvailable;
}

/** Answers STATUS for the default network only, so that a tenant's network cannot block the node. @throws AppError with CNI_CALL_INVALID */
async function checkReady(deps: RuntimeDeps): Promise<void> {
  try {
    await deps.cni.status(await deps.readDefaultNetwork());
  } catch (error) {
    const reason = messageOf(error);
    throw new AppError("CNI_CALL_INVALID", { reason, cniCode: toReadinessCode(error) });
  }
}

interface RuntimeRequest {
  readonly method: string;
  /** Path and query of the request. */
  readonly url: string;
  readonly body: string;
}

/** HTTP response. The body is JSON text or empty. */
export interface RuntimeResponse {
  readonly status: number;
  readonly body: string;
}

const DONE: RuntimeResponse = { status: 200, body: "" };
const NOT_FOUND: RuntimeResponse = { status: 404, body: "" };
const WRONG_METHOD: RuntimeResponse = { status: 405, body: "" };
/** CNI version of results for Multus' programs. Source: Multus pkg/server/api Response. */
const MULTUS_VERSION = "1.0.0";

async function answerCall(call: PluginCall, deps: RuntimeDeps): Promise<CniResult | undefined> {
  switch (call.command) {
    case "ADD":
      return addPod(call, deps);
    case "DEL":
      await removePod(call, deps);
      return undefined;
    case "CHECK":
      await checkPod(call, deps);
      return undefined;
    case "GC":
      await collectGarbage(call, deps);
      return undefined;
    case "STATUS":
      await checkReady(deps);
      return undefined;
  }
}

function toResponse(
  result: CniResult | undefined,
  call: PluginCall,
  isPlugin: boolean,
): RuntimeResponse {
  if (result === undefined) return DONE;
  const body = isPlugin
    ? printResult(result, call.cniVersion)
    : { Result: printResult(result, MULTUS_VERSION) };
  return { status: 200, body: JSON.stringify(body) };
}

async function handleCall(
  { url, body }: RuntimeRequest,
  perform: typeof answerCall,
  deps: RuntimeDeps,
): Promise<RuntimeResponse> {
  let call: PluginCall | undefined;
  try {
    call = parsePluginCall(parseJson(body));
    return toResponse(await perform(call, deps), call, url.endsWith("?answer=plugin"));
  } catch (error) {
    const { command, containerId = "", pod } = call ?? {};
    const failure = toPluginFailure(error, call?.cniVersion);
    const key = pod && `${pod.namespace}/${pod.name}`;
    deps.log.warn("call of the container runtime failed", {
      pod: key,
      action: command,
      sandbox: containerId,
      code: failure.code,
      reason: failure.msg,
    });
    return { status: 400, body: JSON.stringify(failure) };
  }
}

/** Handles a request. Returns errors as responses. */
export async function handleRequest(
  request: RuntimeRequest,
  deps: RuntimeDeps,
): Promise<RuntimeResponse> {
  const [path = ""] = request.url.split("?", 1);
  if (path === "/healthz" || path === "/readyz") return DONE;
  if (path !== "/cni" && path !== "/delegate") return NOT_FOUND;
  if (request.method !== "POST") return WRONG_METHOD;
  return handleCall(request, path === "/cni" ? answerCall : delegate, deps);
}

/** Maximum size of a request in bytes, enough for the environment and a configuration of 1 MB in base64. */
const BODY_MAX_BYTES = 2 * 1024 * 1024;
const REQUEST_TIMEOUT_MS = 10_000;
/** Limits on concurrent calls. After a reboot, the runtime may start all pods of the node at once. */
const CONNECTION_LIMITS: PoolLimits = { max: 1024, share: 1024 };
/** Interval for touching the socket, in milliseconds. patchbay-cni considers an agent removed after 10 minutes without a touch. */
const SOCKET_TOUCH_INTERVAL_MS = 60_000;

/** Reads the body. Returns undefined if the body is too long. */
async function readBody(request: IncomingMessage): Promise<string | undefined> {
  const parts: Buffer[] = [];
  let length = 0;
  // The cast is safe, because a request yields buffers unless `setEncoding` was called.
  for await (const part of request as AsyncIterable<Buffer>) {
    length += part.length;
    if (length > BODY_MAX_BYTES) return undefined;
    parts.push(part);
  }
  return Buffer.concat(parts).toString("utf8");
}

async function respond(
  request: IncomingMessage,
  response: ServerResponse,
  deps: RuntimeDeps,
): Promise<void> {
  const { method = "", url = "" } = request;
  const body = await readBody(request);
  const result =
    body === undefined
      ? { status: 413, body: "" }
      : await handleRequest({ method, url, body }, deps);
  response.writeHead(result.status, {
    "content-type": "application/json",
    "content-length": String(Buffer.byteLength(result.body)),
    connection: "close",
  });
  response.end(result.body);
}

async function listen(server: Server, socketPath: string): Promise<void> {
  const temporaryPath = `${socketPath}.new`;
  const { promise, resolve, reject } = Promise.withResolvers<undefined>();
  server.once("error", reject);
  server.listen(temporaryPath, () => {
    resolve(undefined);
  });
  await promise;
  await publishSocket(temporaryPath, socketPath);
}

async function prepareSocket(files: Files, socketPath: string): Promise<void> {
  await files.ensureDirectory(dirname(socketPath), 0o700);
  if (await isSocketServed(socketPath)) {
    const reason = "another process listens there: one net-agent serves a node's container runtime";
    throw new AppError("OS_PATH_REFUSED", { path: socketPath, reason });
  }
  await files.remove(`${socketPath}.new`);
}

async function touchSocket({ socketPath, clock }: RuntimeDeps, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await touchFile(socketPath, clock.now());
    await clock.sleep(SOCKET_TOUCH_INTERVAL_MS, signal).catch(() => undefined);
  }
}

/** Serves calls until the signal is aborted, and then completes running calls. @throws AppError with OS_PATH_REFUSED, OS_FILE_FAILED */
export async function serveRuntime(
  deps: RuntimeDeps,
  files: Files,
  signal: AbortSignal,
): Promise<void> {
  const { socketPath, log } = deps;
  await prepareSocket(files, socketPath);
  const server = createHttpServer({ requestTimeout: REQUEST_TIMEOUT_MS }, (request, response) => {
    respond(request, response, deps).catch((error: unknown) => {
      // The client disconnected before it sent its whole request.
      log.debug("a client disconnected during its call", { err: error });
      response.destroy();
    });
  });
  limitConnections(server, CONNECTION_LIMITS);
  await listen(server, socketPath);
  log.info("serving the container runtime", { at: socketPath });
  await deps.onServing();
  await touchSocket(deps, signal);
  await deps.onEnd();
  const { promise: closed, resolve } = Promise.withResolvers<undefined>();
  server.close(() => {
    resolve(undefined);
  });
  await closed;
}
