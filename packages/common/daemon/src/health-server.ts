// SPDX-License-Identifier: Apache-2.0
// Server of health checks. Its TCP port is open to everyone, because responses reveal only the service's state and its leader.
import type * as http from "node:http";
import type { Server } from "node:http";
import { createRequire } from "node:module";
import { limitConnections, messageOf, type Logger, type PoolLimits } from "@patchbay/base";

import type { DaemonHealth } from "./health.ts";

/** `createServer` of node:http. A plain import would also load WebSocket and fetch, which need 7 MB. Source: Node.js, lib/http.js. */
export const { createServer } = createRequire(import.meta.url)("node:http") as typeof http;

const REQUEST_TIMEOUT_MS = 5000;
/** Limits on connections. Probes need fewer, because they connect one at a time. */
export const PROBE_CONNECTION_LIMITS: PoolLimits = { max: 64, share: 16 };

type HealthAnswers = Pick<DaemonHealth, "isLive" | "isReady"> &
  Partial<Pick<DaemonHealth, "notes" | "liveNotes">> & {
    /** Returns the metrics for `/metrics` as text. Set only if the server has metrics and a Unix socket that only root can reach. */
    readonly printMetrics?: () => Promise<string>;
  };

const NOT_FOUND_RESPONSE = [404, "not found"] as const;

async function respond(path: string, answers: HealthAnswers): Promise<readonly [number, string]> {
  switch (path) {
    case "/healthz": {
      const [code, state] = answers.isLive() ? [200, "ok"] : [503, "a loop is stuck"];
      return [code, [state, ...(answers.liveNotes?.() ?? [])].join("\n")];
    }
    case "/readyz":
      return (await answers.isReady())
        ? [200, ["ok", ...(answers.notes?.() ?? [])].join("\n")]
        : [503, "not ready"];
    case "/metrics":
      return answers.printMetrics === undefined
        ? NOT_FOUND_RESPONSE
        : [200, await answers.printMetrics()];
    default:
      return NOT_FOUND_RESPONSE;
  }
}

function createHealthServer(answers: HealthAnswers): Server {
  const server = createServer({ requestTimeout: REQUEST_TIMEOUT_MS }, (request, response) => {
    const [path = ""] = (request.url ?? "").split("?");
    request.resume();
    const send = ([code, text]: readonly [number, string]): void => {
      response.writeHead(code, { "content-type": "text/plain", connection: "close" }).end(text);
    };
    respond(path, answers).then(send, (error: unknown) => {
      send([500, messageOf(error)]);
    });
  });
  limitConnections(server, PROBE_CONNECTION_LIMITS);
  return server;
}

function listen(server: Server, address: number | string): Promise<number | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<number | undefined>();
  server.once("error", reject);
  server.listen(address, () => {
    const bound = server.address();
    resolve(typeof bound === "object" ? bound?.port : undefined);
  });
  return promise;
}

/** `drainSignal` is aborted when the service begins to stop and is no longer ready. */
interface HealthServerDeps {
  readonly log: Logger;
  readonly drainSignal?: AbortSignal;
  readonly signal: AbortSignal;
}

/** Serves health checks at a port or Unix socket. Returns the TCP port; undefined for a socket. @throws Error if the address is in use */
export async function serveHealth(
  address: number | string | undefined,
  answers: HealthAnswers,
  { log, drainSignal, signal }: HealthServerDeps,
): Promise<number | undefined> {
  if (address === undefined) return undefined;
  const server = createHealthServer({
    isLive: () => answers.isLive(),
    isReady: async () =>
      drainSignal?.aborted !== true && !signal.aborted && (await answers.isReady()),
    notes: () => answers.notes?.() ?? [],
    liveNotes: () => answers.liveNotes?.() ?? [],
    ...(answers.printMetrics !== undefined && { printMetrics: answers.printMetrics }),
  });
  const port = await listen(server, address);
  log.info("serving health checks", { at: port ?? address });
  signal.addEventListener("abort", () => void server.close(), { once: true });
  return port;
}
