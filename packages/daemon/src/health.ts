// SPDX-License-Identifier: Apache-2.0
// Does the service live, and does it do its work? Whoever asks may be anybody: nothing else is told.
import type { Server } from "node:http";
import type { Logger } from "@patchbay/ports";
import { createServer } from "./http-server.ts";

/** Milliseconds for a request to come whole; who is slower is no probe. */
const REQUEST_TIMEOUT_MS = 5000;
/** Connections at once; probes come one by one. */
const CONNECTIONS_MAX = 16;

/** What probes are told. */
export interface Health {
  /** From now on `/readyz` says so. */
  ready(): void;
  /** Where is listened; undefined where nobody asks. */
  readonly port: number | undefined;
}

function makeServer(isReady: () => boolean): Server {
  const answers: Readonly<Record<string, () => readonly [number, string]>> = {
    "/healthz": () => [200, "ok"],
    "/readyz": () => (isReady() ? [200, "ok"] : [503, "not ready"]),
  };
  const server = createServer({ requestTimeout: REQUEST_TIMEOUT_MS }, (request, response) => {
    const [path = ""] = (request.url ?? "").split("?");
    const [code, text] = answers[path]?.() ?? [404, "not found"];
    response.writeHead(code, { "content-type": "text/plain", connection: "close" }).end(text);
    request.resume();
  });
  server.maxConnections = CONNECTIONS_MAX;
  return server;
}

function listen(server: Server, port: number): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  server.once("error", reject);
  server.listen(port, () => {
    const address = server.address();
    resolve(typeof address === "object" && address !== null ? address.port : port);
  });
  return promise;
}

/**
 * Answers `/healthz` and `/readyz` on all addresses until the signal is aborted; without a port, nowhere.
 * @throws Error when the port is taken
 */
export async function serveHealth(
  port: number | undefined,
  log: Logger,
  signal: AbortSignal,
): Promise<Health> {
  let isReady = false;
  const ready = (): void => {
    isReady = true;
  };
  if (port === undefined) return { ready, port };
  const server = makeServer(() => isReady && !signal.aborted);
  const listening = await listen(server, port);
  log.info("health is answered", { port: listening });
  signal.addEventListener("abort", () => void server.close(), { once: true });
  return { ready, port: listening };
}
