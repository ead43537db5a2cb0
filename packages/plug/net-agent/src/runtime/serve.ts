// SPDX-License-Identifier: Apache-2.0
// Listens for the container runtime at a unix socket that only root can reach.
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { dirname } from "node:path";
import { AppError } from "@patchbay/core";
import { createHttpServer } from "@patchbay/daemon";
import { answersAt, publishSocket, showAlive } from "@patchbay/os";
import type { Files } from "@patchbay/core/ports";
import { answer } from "./answer.ts";
import type { RuntimeDeps } from "./deps.ts";

/** Bytes of a request: a configuration of a megabyte in base64, and an environment. */
const BODY_MAX = 2 * 1024 * 1024;
/** Milliseconds for a request to come whole. */
const REQUEST_TIMEOUT_MS = 10_000;
/** Calls at once; after a start of the node each of its pods has one. */
const CONNECTIONS_MAX = 1024;
/** How often the socket's file says that we live; our plugin takes ten minutes of silence for more than a restart. */
const ALIVE_MS = 60_000;

/** The body; undefined: it is too long. */
async function readBody(request: IncomingMessage): Promise<string | undefined> {
  const parts: Buffer[] = [];
  let length = 0;
  // A request without encoding gives bytes.
  for await (const part of request as AsyncIterable<Buffer>) {
    length += part.length;
    if (length > BODY_MAX) return undefined;
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
  const said =
    body === undefined ? { status: 413, body: "" } : await answer({ method, url, body }, deps);
  response.writeHead(said.status, {
    "content-type": "application/json",
    "content-length": String(Buffer.byteLength(said.body)),
    connection: "close",
  });
  response.end(said.body);
}

async function listen(server: Server, socketPath: string): Promise<void> {
  const made = `${socketPath}.new`;
  const { promise, resolve, reject } = Promise.withResolvers<undefined>();
  server.once("error", reject);
  server.listen(made, () => {
    resolve(undefined);
  });
  await promise;
  await publishSocket(made, socketPath);
}

async function prepare(files: Files, socketPath: string): Promise<void> {
  await files.ensureDirectory(dirname(socketPath), 0o700);
  if (await answersAt(socketPath)) {
    const reason = "another process listens there: one net-agent serves a node's container runtime";
    throw new AppError("OS_PATH_REFUSED", { path: socketPath, reason });
  }
  await files.remove(`${socketPath}.new`);
}

async function keepAlive({ socketPath, clock }: RuntimeDeps, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await showAlive(socketPath, clock.now());
    await clock.sleep(ALIVE_MS, signal).catch(() => undefined); // aborted: seen above
  }
}

/**
 * Answers until the signal is aborted; what has begun is ended first.
 * @throws AppError with OS_PATH_REFUSED where another listens, OS_FILE_FAILED
 */
export async function serveRuntime(
  deps: RuntimeDeps,
  files: Files,
  signal: AbortSignal,
): Promise<void> {
  const { socketPath, log } = deps;
  await prepare(files, socketPath);
  const server = createHttpServer({ requestTimeout: REQUEST_TIMEOUT_MS }, (request, response) => {
    respond(request, response, deps).catch((error: unknown) => {
      // It went away before it had said what it wanted.
      log.debug("a call of the container runtime was cut off", { err: error });
      response.destroy();
    });
  });
  server.maxConnections = CONNECTIONS_MAX;
  await listen(server, socketPath);
  log.info("serving the container runtime", { at: socketPath });
  await deps.served();
  await keepAlive(deps, signal);
  await deps.leaving();
  const { promise: closed, resolve } = Promise.withResolvers<undefined>();
  server.close(() => {
    resolve(undefined);
  });
  await closed;
}
