// SPDX-License-Identifier: Apache-2.0
// Server of a service's metrics. The server can require authorization, because metrics reveal all VMs and their traffic.
import type { IncomingMessage, RequestListener, Server, ServerResponse } from "node:http";
import {
  HANDSHAKE_TIMEOUT_MS,
  limitConnections,
  messageOf,
  type Clock,
  type Logger,
} from "@patchbay/base";

import type { Metrics } from "@patchbay/telemetry";
import { configHealth, type DaemonHealth } from "./health.ts";
import { createServer, PROBE_CONNECTION_LIMITS } from "./health-server.ts";
import type { AccessCheck } from "./metrics-access.ts";

const REQUEST_TIMEOUT_MS = 5000;

/** Pattern of the path `/healthz`, which KubeVirt's tests request with two slashes. */
const HEALTHZ = /^\/{1,2}healthz$/;

/** Validity of the server certificate in days. It may be long: clients do not verify the certificate, and each start creates a new one. */
const CERTIFICATE_DAYS = 3650;

/** Address of the server. Without a port, metrics are not served. Without an address, the server listens on all addresses. */
interface MetricsAddress {
  readonly metricsPort?: number;
  readonly metricsAddress?: string;
}

interface ServedMetrics {
  readonly metrics: Pick<Metrics, "print" | "contentType">;
  /** Checks the tokens of clients over TLS; unset to serve metrics to everyone over plain HTTP. */
  readonly checkAccess?: AccessCheck;
  /** State and configuration version that `/healthz` reports to every client, as KubeVirt's services do. */
  readonly health: Pick<DaemonHealth, "isLive" | "configVersion">;
}

function sendError(response: ServerResponse, code: number, reason: string): void {
  const challenge = code === 401 ? { "www-authenticate": "Bearer" } : {};
  response.writeHead(code, { "content-type": "text/plain", ...challenge }).end(reason);
}

async function authorize(
  request: IncomingMessage,
  response: ServerResponse,
  checkAccess: AccessCheck | undefined,
): Promise<boolean> {
  if (checkAccess === undefined) return true;
  const [, token] = /^Bearer (\S+)$/i.exec(request.headers.authorization ?? "") ?? [];
  const access = token === undefined ? "unknown" : await checkAccess(token);
  if (access === "unknown") sendError(response, 401, "a token of the cluster is needed");
  if (access === "forbidden")
    sendError(response, 403, "the role patchbay:metrics-reader is needed");
  return access === "granted";
}

function sendHealthz(response: ServerResponse, health: ServedMetrics["health"]): void {
  const version = health.configVersion();
  if (version === undefined) {
    sendError(response, 404, "not found");
    return;
  }
  const { code, body } = configHealth(health.isLive(), version);
  response.writeHead(code, { "content-type": "application/json" }).end(JSON.stringify(body));
}

function createMetricsListener({ metrics, checkAccess, health }: ServedMetrics, log: Logger) {
  const sendMetrics = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    try {
      if (!(await authorize(request, response, checkAccess))) return;
      const text = await metrics.print();
      response.writeHead(200, { "content-type": metrics.contentType }).end(text);
    } catch (error) {
      log.warn("the metrics cannot be read", { reason: messageOf(error) });
      sendError(response, 500, "the metrics cannot be read");
    }
  };
  return (request: IncomingMessage, response: ServerResponse): void => {
    request.resume();
    response.setHeader("connection", "close");
    const [path = ""] = (request.url ?? "").split("?");
    if (path === "/metrics" && request.method === "GET") void sendMetrics(request, response);
    else if (HEALTHZ.test(path)) sendHealthz(response, health);
    else sendError(response, 404, "not found");
  };
}

/** Creates an HTTPS server. Loads TLS on demand, because it needs several MB. */
async function createSecureServer(listener: RequestListener, clock: Clock): Promise<Server> {
  const [{ createServer: createSecure }, { createAuthority, issueCertificate }] = await Promise.all(
    [import("node:https"), import("@patchbay/pki")],
  );
  const authority = await createAuthority("metrics", clock);
  const { certPem: cert, keyPem: key } = await issueCertificate(authority, {
    commonName: "metrics",
    organizations: [],
    dnsNames: ["metrics"],
    ipAddresses: [],
    usages: ["server"],
    validDays: CERTIFICATE_DAYS,
  });
  const timeouts = { handshakeTimeout: HANDSHAKE_TIMEOUT_MS, requestTimeout: REQUEST_TIMEOUT_MS };
  return createSecure({ cert, key, ...timeouts }, listener);
}

/** Serves metrics. Returns the port; undefined if metrics are not served. @throws Error if the port is in use */
export async function serveMetrics(
  { metricsPort, metricsAddress }: MetricsAddress,
  served: ServedMetrics,
  deps: { readonly clock: Clock; readonly log: Logger; readonly signal: AbortSignal },
): Promise<number | undefined> {
  if (metricsPort === undefined) return undefined;
  const { clock, log, signal } = deps;
  const listener = createMetricsListener(served, log);
  const server =
    served.checkAccess === undefined
      ? createServer({ requestTimeout: REQUEST_TIMEOUT_MS }, listener)
      : await createSecureServer(listener, clock);
  limitConnections(server, PROBE_CONNECTION_LIMITS);
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
