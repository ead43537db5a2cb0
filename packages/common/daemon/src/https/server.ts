// SPDX-License-Identifier: Apache-2.0
// HTTPS server that requests client certificates and reloads its own.
import { createServer, type Server } from "node:https";
import { constants } from "node:crypto";
import type { IncomingMessage, RequestListener } from "node:http";
import type { Duplex } from "node:stream";
import { messageOf, type Logger } from "@patchbay/base";

import type { ClientAuthority, KeyPair, Source } from "./certificates.ts";

/** Milliseconds to receive a request. */
const REQUEST_TIMEOUT_MS = 30_000;
/** Milliseconds; longer than clients keep idle connections (kube-apiserver 90 s), so that they close them first. */
const KEEP_ALIVE_MS = 120_000;
/** Milliseconds of silence before TCP probes the peer, because a stream may be silent for days. */
const PROBE_AFTER_MS = 30_000;
/** Milliseconds for running responses when the server stops. */
const CLOSE_TIMEOUT_MS = 5000;

export interface ServerSettings {
  readonly listenAddress: string;
  /** 0 selects a free port. */
  readonly port: number;
  readonly certificate: Source<KeyPair>;
  /** Authorities of trusted clients; read together with the certificate. */
  readonly clientAuthorities: readonly ClientAuthority[];
  /** Whether the handshake fails without a client certificate. Default: clients may connect without one. */
  readonly demandsCertificate?: boolean;
}

/** Takes over an upgraded connection; `head`: bytes after the request. */
export type UpgradeListener = (request: IncomingMessage, socket: Duplex, head: Buffer) => void;

/** `log` receives failures; the server runs until `signal`. */
export interface ServerDeps {
  readonly log: Logger;
  readonly signal: AbortSignal;
  /** Once aborted, each response closes its connection, so that clients move to another server. */
  readonly leaving?: AbortSignal;
  /** If unset, upgrade requests are treated like others. */
  readonly onUpgrade?: UpgradeListener;
}

export interface RunningServer {
  readonly port: number;
  /** Resolves when the server has stopped after `signal`. */
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
    // Without this field, Node.js would trust the public authorities.
    ca: (await Promise.all(authorities)).filter((pem) => pem !== ""),
    // Disables session resumption, so that every client presents its certificate. It must be set for new certificates
    // too.
    secureOptions: constants.SSL_OP_NO_TICKET,
  };
}

/** New connections use the reloaded certificates. */
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
    source.follow(() => void reload(), signal);
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

/** Serves until the signal is aborted. @throws AppError of the certificates' sources */
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
      // Probes connect without a certificate.
      rejectUnauthorized: settings.demandsCertificate === true,
      requestTimeout: REQUEST_TIMEOUT_MS,
      keepAliveTimeout: KEEP_ALIVE_MS,
      keepAlive: true,
      keepAliveInitialDelay: PROBE_AFTER_MS,
    },
    (request, response) => {
      if (deps.leaving?.aborted === true) response.setHeader("connection", "close");
      app(request, response);
    },
  );
  if (deps.onUpgrade !== undefined) server.on("upgrade", deps.onUpgrade);
  server.on("tlsClientError", (error) => {
    deps.log.debug("TLS failed", { reason: messageOf(error) });
  });
  const port = await listen(server, settings);
  followCertificates(server, settings, deps);
  return { port, closed: closeWhenAborted(server, deps.signal) };
}
