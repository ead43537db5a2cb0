// SPDX-License-Identifier: Apache-2.0
// How the application is served: TLS, with the API server's client certificate asked for, and new certificates taken up.
import { createServer, type Server } from "node:https";
import { constants } from "node:crypto";
import type { RequestListener } from "node:http";
import { dirname } from "node:path";
import { AppError, messageOf } from "@patchbay/core";
import type { Files, Logger } from "@patchbay/ports";
import type { ClientAuthority } from "./client-authority.ts";

/** Milliseconds in which a request must have come whole. */
const REQUEST_TIMEOUT_MS = 30_000;
/** Milliseconds for which answers may go on when the server is to stop. */
const CLOSE_TIMEOUT_MS = 5000;

/** Where to listen and with which certificates. */
export interface ServerSettings {
  readonly listenAddress: string;
  /** 0 takes a free one. */
  readonly port: number;
  readonly certFile: string;
  readonly keyFile: string;
  /** Authorities of clients that are trusted with something; their files are read with the certificate. */
  readonly clientAuthorities: readonly ClientAuthority[];
}

/** From where certificates are read, where failures are told, and until when is served. */
export interface ServerDeps {
  readonly files: Files;
  readonly log: Logger;
  readonly signal: AbortSignal;
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

async function readRequired(files: Files, path: string): Promise<string> {
  const text = await files.readText(path);
  if (text !== undefined) return text;
  throw new AppError("OS_FILE_FAILED", { call: "open", path, reason: "no such file" });
}

async function readCertificates(files: Files, settings: ServerSettings): Promise<Certificates> {
  const { certFile, keyFile, clientAuthorities } = settings;
  return {
    cert: await readRequired(files, certFile),
    key: await readRequired(files, keyFile),
    // Without this member the authorities of the web would count.
    ca: await Promise.all(clientAuthorities.map((authority) => authority.read(files))),
    // No session is taken up again: every client shows its certificate. Counts for new certificates too, or not at all.
    secureOptions: constants.SSL_OP_NO_TICKET,
  };
}

/** New connections get the certificates that are in the files now. */
function followCertificates(server: Server, settings: ServerSettings, deps: ServerDeps): void {
  const { files, log, signal } = deps;
  const reload = async (): Promise<void> => {
    try {
      server.setSecureContext(await readCertificates(files, settings));
      log.info("certificates read");
    } catch (error) {
      log.warn("new certificates cannot be used; the old ones stay", { reason: messageOf(error) });
    }
  };
  files.watchDirectory(dirname(settings.certFile), () => void reload(), signal);
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
 * @throws AppError with OS_FILE_FAILED when a certificate file cannot be read.
 */
export async function startServer(
  app: RequestListener,
  settings: ServerSettings,
  deps: ServerDeps,
): Promise<RunningServer> {
  const certificates = await readCertificates(deps.files, settings);
  const server = createServer(
    {
      ...certificates,
      // Asked for, but not demanded: probes come without one.
      requestCert: settings.clientAuthorities.length > 0,
      rejectUnauthorized: false,
      requestTimeout: REQUEST_TIMEOUT_MS,
    },
    app,
  );
  server.on("tlsClientError", (error) => {
    deps.log.debug("TLS failed", { reason: messageOf(error) });
  });
  const port = await listen(server, settings);
  followCertificates(server, settings, deps);
  return { port, closed: closeWhenAborted(server, deps.signal) };
}
