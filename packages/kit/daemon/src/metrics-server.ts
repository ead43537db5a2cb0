// SPDX-License-Identifier: Apache-2.0
// Where are a service's metrics read? They name every VM and what it sends: whoever may reach the port may know that.
import type { Server, ServerResponse } from "node:http";
import { messageOf } from "@patchbay/core";
import type { Logger } from "@patchbay/core/ports";
import type { Metrics } from "@patchbay/telemetry";
import { createServer } from "./http-server.ts";

/** Milliseconds for a request to come whole. */
const REQUEST_TIMEOUT_MS = 5000;
/** Connections at once; those who collect metrics come one by one. */
const CONNECTIONS_MAX = 16;

/** Where is listened; without a port nowhere, without an address on all. */
export interface MetricsAddress {
  readonly metricsPort?: number;
  readonly metricsAddress?: string;
}

async function answer(
  response: ServerResponse,
  metrics: Pick<Metrics, "print" | "contentType">,
  log: Logger,
): Promise<void> {
  try {
    const text = await metrics.print();
    response.writeHead(200, { "content-type": metrics.contentType }).end(text);
  } catch (error) {
    log.warn("the metrics cannot be read", { reason: messageOf(error) });
    response.writeHead(500, { "content-type": "text/plain" }).end("the metrics cannot be read");
  }
}

function makeServer(metrics: Pick<Metrics, "print" | "contentType">, log: Logger): Server {
  const server = createServer({ requestTimeout: REQUEST_TIMEOUT_MS }, (request, response) => {
    request.resume();
    response.setHeader("connection", "close");
    const [path] = (request.url ?? "").split("?");
    if (path === "/metrics" && request.method === "GET") void answer(response, metrics, log);
    else response.writeHead(404, { "content-type": "text/plain" }).end("not found");
  });
  server.maxConnections = CONNECTIONS_MAX;
  return server;
}

/**
 * Answers `/metrics` over plain HTTP until the signal is aborted; the port on which it does, undefined: on none.
 * @throws Error when the port is taken
 */
export async function serveMetrics(
  { metricsPort, metricsAddress }: MetricsAddress,
  metrics: Pick<Metrics, "print" | "contentType">,
  { log, signal }: { readonly log: Logger; readonly signal: AbortSignal },
): Promise<number | undefined> {
  if (metricsPort === undefined) return undefined;
  const server = makeServer(metrics, log);
  const { promise, resolve, reject } = Promise.withResolvers<undefined>();
  server.once("error", reject);
  server.listen(metricsPort, metricsAddress, () => {
    resolve(undefined);
  });
  await promise;
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : metricsPort;
  log.info("serving metrics", { port });
  signal.addEventListener("abort", () => void server.close(), { once: true });
  return port;
}
