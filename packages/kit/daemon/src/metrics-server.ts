// SPDX-License-Identifier: Apache-2.0
// Where are a service's metrics read? They name every VM and what it sends: whoever may reach the port may know that.
import type { IncomingMessage, RequestListener, Server, ServerResponse } from "node:http";
import { messageOf } from "@patchbay/core";
import type { Clock, Logger } from "@patchbay/core/ports";
import type { Metrics } from "@patchbay/telemetry";
import { createServer } from "./http-server.ts";
import { configHealth } from "./config-health.ts";
import type { DaemonHealth } from "./health.ts";
import type { AskForAccess } from "./metrics-access.ts";

/** Milliseconds for a request to come whole. */
const REQUEST_TIMEOUT_MS = 5000;
/** Connections at once; those who collect metrics come one by one. */
const CONNECTIONS_MAX = 16;

/** KubeVirt's suite of tests asks for it with two slashes. */
const HEALTHZ = /^\/{1,2}healthz$/;

/** Of a certificate that nobody verifies, and that is made anew at each start. */
const CERTIFICATE_DAYS = 3650;

/** Where is listened; without a port nowhere, without an address on all. */
export interface MetricsAddress {
  readonly metricsPort?: number;
  readonly metricsAddress?: string;
}

/** What is told, and to whom. */
export interface ServedMetrics {
  readonly metrics: Pick<Metrics, "print" | "contentType">;
  /** Absent: over plain HTTP, to everybody; else over TLS, to bearers of tokens that it grants access. */
  readonly askForAccess?: AskForAccess;
  /** Tells everybody at `/healthz` by which configuration the service goes, as KubeVirt's do where their metrics are. */
  readonly health: Pick<DaemonHealth, "isLive" | "configVersion">;
}

function refuse(response: ServerResponse, code: number, why: string): void {
  const challenge = code === 401 ? { "www-authenticate": "Bearer" } : {};
  response.writeHead(code, { "content-type": "text/plain", ...challenge }).end(why);
}

/** Answers who may not read; whether the others get on. */
async function mayRead(
  request: IncomingMessage,
  response: ServerResponse,
  askForAccess: AskForAccess | undefined,
): Promise<boolean> {
  if (askForAccess === undefined) return true;
  const [, token] = /^Bearer (\S+)$/i.exec(request.headers.authorization ?? "") ?? [];
  const access = token === undefined ? "unknown" : await askForAccess(token);
  if (access === "unknown") refuse(response, 401, "a token of the cluster is needed");
  if (access === "forbidden") refuse(response, 403, "the role patchbay:metrics-reader is needed");
  return access === "granted";
}

function tellHealth(response: ServerResponse, health: ServedMetrics["health"]): void {
  const version = health.configVersion();
  if (version === undefined) {
    refuse(response, 404, "not found");
    return;
  }
  const { code, body } = configHealth(health.isLive(), version);
  response.writeHead(code, { "content-type": "application/json" }).end(JSON.stringify(body));
}

function listenerOf({ metrics, askForAccess, health }: ServedMetrics, log: Logger) {
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    try {
      if (!(await mayRead(request, response, askForAccess))) return;
      const text = await metrics.print();
      response.writeHead(200, { "content-type": metrics.contentType }).end(text);
    } catch (error) {
      log.warn("the metrics cannot be read", { reason: messageOf(error) });
      refuse(response, 500, "the metrics cannot be read");
    }
  };
  return (request: IncomingMessage, response: ServerResponse): void => {
    request.resume();
    response.setHeader("connection", "close");
    const [path = ""] = (request.url ?? "").split("?");
    if (path === "/metrics" && request.method === "GET") void answer(request, response);
    else if (HEALTHZ.test(path)) tellHealth(response, health);
    else refuse(response, 404, "not found");
  };
}

/** TLS is loaded only where it is needed: it takes some MB. */
async function makeSecureServer(listener: RequestListener, clock: Clock): Promise<Server> {
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
  return createSecure({ cert, key, requestTimeout: REQUEST_TIMEOUT_MS }, listener);
}

/**
 * Answers `/metrics` until the signal is aborted; the port on which it does, undefined: on none.
 * @throws Error when the port is taken
 */
export async function serveMetrics(
  { metricsPort, metricsAddress }: MetricsAddress,
  served: ServedMetrics,
  deps: { readonly clock: Clock; readonly log: Logger; readonly signal: AbortSignal },
): Promise<number | undefined> {
  if (metricsPort === undefined) return undefined;
  const { clock, log, signal } = deps;
  const listener = listenerOf(served, log);
  const server =
    served.askForAccess === undefined
      ? createServer({ requestTimeout: REQUEST_TIMEOUT_MS }, listener)
      : await makeSecureServer(listener, clock);
  server.maxConnections = CONNECTIONS_MAX;
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
