// SPDX-License-Identifier: Apache-2.0
// HTTPS server that requests client certificates and reloads its own certificate.
import { createServer, type Server } from "node:https";
import { constants } from "node:crypto";
import type { IncomingMessage, RequestListener } from "node:http";
import type { Duplex } from "node:stream";
import { TLSSocket } from "node:tls";
import {
  HANDSHAKE_TIMEOUT_MS,
  limitConnections,
  limitHandshakes,
  messageOf,
  type Logger,
  type PoolLimits,
  type Rate,
} from "@patchbay/base";
import { createClock } from "@patchbay/os";

import type { ClientAuthority, KeyPair, Source } from "./certificates.ts";

const REQUEST_TIMEOUT_MS = 30_000;
/** TLS handshakes of one address. An API server has one for each stream of a user. */
const HANDSHAKE_RATE: Rate = { burst: 300, perSecond: 20 };
/** Limits on connections. The share of an address exceeds the connections of an API server without a client certificate. */
const CONNECTION_LIMITS: PoolLimits = { max: 2048, share: 128, systemShare: 1280, reserve: 1280 };
/** Time after which the server closes idle connections, in milliseconds. Exceeds kube-apiserver's 90 s, so that the client closes first. */
const KEEP_ALIVE_MS = 120_000;
/** Time without traffic after which TCP probes whether the client still exists, in milliseconds. */
const PROBE_AFTER_MS = 30_000;
/** Time for which running responses may continue when the server stops, in milliseconds. */
const CLOSE_TIMEOUT_MS = 5000;

export interface ServerSettings {
  readonly listenAddress: string;
  /** TCP port; 0 selects a free port. */
  readonly port: number;
  readonly certificate: Source<KeyPair>;
  /** Authorities whose clients may be trusted. They are read again whenever `certificate` is read. */
  readonly clientAuthorities: readonly ClientAuthority[];
  /** Whether the handshake fails without a client certificate. Defaults to false. */
  readonly demandsCertificate?: boolean;
}

/** Handler of an upgraded connection. `head` contains the bytes after the request. */
export type UpgradeListener = (request: IncomingMessage, socket: Duplex, head: Buffer) => void;

export interface ServerDeps {
  readonly log: Logger;
  readonly signal: AbortSignal;
  /** Once this signal is aborted, each response closes its connection, so that clients connect to another server. */
  readonly drainSignal?: AbortSignal;
  /** Handler of upgrade requests; unset to treat them like other requests. */
  readonly onUpgrade?: UpgradeListener;
}

export interface RunningServer {
  readonly port: number;
  readonly closed: Promise<void>;
}

interface Certificates {
  readonly cert: string;
  readonly key: string;
  readonly ca: string[];
  readonly secureOptions: number;
}

async function readCertificates(settings: ServerSettings): Promise<Certificates> {
  const { certPem, keyPem } = await settings.certificate.read();
  const authorities = settings.clientAuthorities.map((authority) => authority.read());
  return {
    cert: certPem,
    key: keyPem,
    // An empty list is set too, because Node.js would trust the public authorities if `ca` were unset.
    ca: (await Promise.all(authorities)).filter((pem) => pem !== ""),
    // Disables session resumption, so that every client presents its certificate. Each reload must repeat this option to keep it.
    secureOptions: constants.SSL_OP_NO_TICKET,
  };
}

function followCertificates(server: Server, settings: ServerSettings, deps: ServerDeps): void {
  const { log, signal } = deps;
  const reload = async (): Promise<void> => {
    try {
      server.setSecureContext(await readCertificates(settings));
      log.info("certificates read");
    } catch (error) {
      log.warn("new certificates cannot be used; the old ones stay", { reason: messageOf(error) });
    }
  };
  for (const source of [settings.certificate, ...settings.clientAuthorities]) {
    source.onChange(() => void reload(), signal);
  }
}

function listen(server: Server, settings: ServerSettings): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  server.once("error", reject);
  server.listen(settings.port, settings.listenAddress, () => {
    server.off("error", reject);
    const address = server.address();
    resolve(typeof address === "object" && address !== null ? address.port : settings.port);
  });
  return promise;
}

function closeWhenAborted(server: Server, signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<undefined>();
  server.once("close", () => {
    resolve(undefined);
  });
  const close = (): void => {
    server.close();
    server.closeIdleConnections();
    AbortSignal.timeout(CLOSE_TIMEOUT_MS).addEventListener("abort", () => {
      server.closeAllConnections();
    });
  };
  if (signal.aborted) close();
  else signal.addEventListener("abort", close, { once: true });
  return promise;
}

/** Starts a server that runs until the signal is aborted. @throws AppError if a source of certificates has no valid value */
export async function startServer(
  app: RequestListener,
  settings: ServerSettings,
  deps: ServerDeps,
): Promise<RunningServer> {
  const certificates = await readCertificates(settings);
  const server = createServer(
    {
      ...certificates,
      requestCert: settings.clientAuthorities.length > 0,
      // By default, accepts clients without a certificate, because health probes have none.
      rejectUnauthorized: settings.demandsCertificate === true,
      handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
      requestTimeout: REQUEST_TIMEOUT_MS,
      keepAliveTimeout: KEEP_ALIVE_MS,
      keepAlive: true,
      keepAliveInitialDelay: PROBE_AFTER_MS,
    },
    (request, response) => {
      if (deps.drainSignal?.aborted === true) response.setHeader("connection", "close");
      app(request, response);
    },
  );
  limitHandshakes(server, HANDSHAKE_RATE, { clock: createClock(), stop: deps.signal });
  const isCertified = (socket: object): boolean =>
    socket instanceof TLSSocket &&
    settings.clientAuthorities.some((authority) => authority.isTrustedClient({ socket }));
  const connections = limitConnections(server, CONNECTION_LIMITS, isCertified);
  const { onUpgrade } = deps;
  if (onUpgrade !== undefined) {
    server.on("upgrade", (request, socket, head) => {
      connections.beginRequest(request.socket);
      onUpgrade(request, socket, head);
    });
  }
  server.on("tlsClientError", (error) => {
    deps.log.debug("TLS failed", { reason: messageOf(error) });
  });
  const port = await listen(server, settings);
  followCertificates(server, settings, deps);
  return { port, closed: closeWhenAborted(server, deps.signal) };
}
