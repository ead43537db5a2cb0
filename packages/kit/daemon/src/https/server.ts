// SPDX-License-Identifier: Apache-2.0
// How the application is served: TLS, with the API server's client certificate asked for, and new certificates taken up.
import { createServer, type Server } from "node:https";
import { constants } from "node:crypto";
import type { IncomingMessage, RequestListener } from "node:http";
import type { Duplex } from "node:stream";
import { messageOf } from "@patchbay/core";
import type { Logger } from "@patchbay/core/ports";
import type { ClientAuthority } from "./client-authority.ts";
import type { KeyPair, Source } from "./source.ts";

/** Milliseconds in which a request must have come whole. */
const REQUEST_TIMEOUT_MS = 30_000;
/**
 * How long an idle connection is kept, milliseconds: longer than whoever calls keeps it (kube-apiserver 90 s), so that
 * the end of one never meets a request on its way, and a call after a minute of rest needs no handshake.
 */
const KEEP_ALIVE_MS = 120_000;
/** After how long a silence TCP asks whether a peer still exists, milliseconds: a stream may be silent for days. */
const PROBE_AFTER_MS = 30_000;
/** Milliseconds for which answers may go on when the server is to stop. */
const CLOSE_TIMEOUT_MS = 5000;

/** Where to listen and with which certificates. */
export interface ServerSettings {
  readonly listenAddress: string;
  /** 0 takes a free one. */
  readonly port: number;
  readonly certificate: Source<KeyPair>;
  /** Authorities of clients that are trusted with something; they are read with the certificate. */
  readonly clientAuthorities: readonly ClientAuthority[];
  /** Whether the handshake ends where a client shows no certificate of theirs; absent: it may come without. */
  readonly demandsCertificate?: boolean;
}

/** Takes over a connection that is to become something else; `head`: what came behind the request. */
export type UpgradeListener = (request: IncomingMessage, socket: Duplex, head: Buffer) => void;

/** Where failures are told, and until when is served. */
export interface ServerDeps {
  readonly log: Logger;
  readonly signal: AbortSignal;
  /** Once it is aborted, each answer is the last of its connection: the next one goes to another server. */
  readonly leaving?: AbortSignal;
  /** Absent: requests for an upgrade are requests like all others. */
  readonly onUpgrade?: UpgradeListener;
}

/** A server to which clients can connect already. */
export interface RunningServer {
  readonly port: number;
  /** Resolves when it has stopped after `signal` was aborted. */
  readonly closed: Promise<void>;
}

/** What TLS works with from one change of the files to the next. */
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
    // Without this member the authorities of the web would count.
    ca: (await Promise.all(authorities)).filter((pem) => pem !== ""),
    // No session is taken up again: every client shows its certificate. Counts for new certificates too, or not at all.
    secureOptions: constants.SSL_OP_NO_TICKET,
  };
}

/** New connections get the certificates that are there now. */
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

/**
 * Serves until the signal is aborted.
 * @throws AppError with what the source of a certificate throws.
 */
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
      // Where it is not demanded, probes come without one.
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
