// SPDX-License-Identifier: Apache-2.0
// Health checks of a service. At a TCP port anybody may send one, and learns only yes or no, and who leads.
import type { Server } from "node:http";
import { messageOf } from "@patchbay/core/errors";
import type { Logger } from "@patchbay/core/ports";
import type { DaemonHealth } from "./health.ts";
import { createServer } from "./http-server.ts";

/** Milliseconds for a request to come whole; who is slower is no probe. */
const REQUEST_TIMEOUT_MS = 5000;
/** Connections at once; probes come one by one. */
const CONNECTIONS_MAX = 16;

/** Whether the service lives, and whether it does its work. */
export type Answers = Pick<DaemonHealth, "isLive" | "isReady"> &
  Partial<Pick<DaemonHealth, "notes">> & {
    /** The service's metrics, at a Unix socket in a directory of root's. Unset: `/metrics` is not served. */
    readonly printMetrics?: () => Promise<string>;
  };

const NOT_FOUND = [404, "not found"] as const;

async function answerTo(path: string, answers: Answers): Promise<readonly [number, string]> {
  switch (path) {
    case "/healthz":
      return answers.isLive() ? [200, "ok"] : [503, "stands still"];
    case "/readyz":
      return (await answers.isReady())
        ? [200, ["ok", ...(answers.notes?.() ?? [])].join("\n")]
        : [503, "not ready"];
    case "/metrics":
      return answers.printMetrics === undefined ? NOT_FOUND : [200, await answers.printMetrics()];
    default:
      return NOT_FOUND;
  }
}

function makeServer(answers: Answers): Server {
  const server = createServer({ requestTimeout: REQUEST_TIMEOUT_MS }, (request, response) => {
    const [path = ""] = (request.url ?? "").split("?");
    request.resume();
    const send = ([code, text]: readonly [number, string]): void => {
      response.writeHead(code, { "content-type": "text/plain", connection: "close" }).end(text);
    };
    answerTo(path, answers).then(send, (error: unknown) => {
      send([500, messageOf(error)]);
    });
  });
  server.maxConnections = CONNECTIONS_MAX;
  return server;
}

function listen(server: Server, at: number | string): Promise<number | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<number | undefined>();
  server.once("error", reject);
  server.listen(at, () => {
    const address = server.address();
    resolve(typeof address === "object" ? address?.port : undefined);
  });
  return promise;
}

/** Where is told what happens, and until when is answered; who is leaving is not ready. */
export interface HealthServerDeps {
  readonly log: Logger;
  readonly leaving?: AbortSignal;
  readonly signal: AbortSignal;
}

/**
 * Answers `/healthz` and `/readyz` until the signal is aborted: on all addresses at a TCP port, or at the path of a Unix
 * socket; nowhere without either. Resolves with the port.
 * @throws Error when the port or the path is taken
 */
export async function serveHealth(
  at: number | string | undefined,
  answers: Answers,
  { log, leaving, signal }: HealthServerDeps,
): Promise<number | undefined> {
  if (at === undefined) return undefined;
  const server = makeServer({
    isLive: () => answers.isLive(),
    isReady: async () => leaving?.aborted !== true && !signal.aborted && (await answers.isReady()),
    notes: () => answers.notes?.() ?? [],
    ...(answers.printMetrics !== undefined && { printMetrics: answers.printMetrics }),
  });
  const port = await listen(server, at);
  log.info("serving health checks", { at: port ?? at });
  signal.addEventListener("abort", () => void server.close(), { once: true });
  return port;
}
