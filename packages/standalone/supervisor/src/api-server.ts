// SPDX-License-Identifier: Apache-2.0
// The API server of a standalone machine, run in this process.
import { startApiServer, type ServerExtensions } from "@patchbay/apiserver";
import { serveHealth } from "@patchbay/daemon/health";
import { createClock, createFiles } from "@patchbay/os";
import { createLogger, type LogLevel } from "@patchbay/telemetry/logger";
import { ensureAdminKubeconfig, ensureServerCertificates } from "./data-dir/certificates.ts";
import { printResult, stopSignal } from "./config.ts";
import type { Print } from "./supervisor/follow.ts";
import { readFields } from "./data-dir/json.ts";
import { buildPaths, type Paths } from "./data-dir/paths.ts";
import { readMetrics } from "./metrics.ts";
import { apiServerOptions } from "./settings/api-server-options.ts";

export interface ApiServerRun {
  /** Absolute. */
  readonly dataDir: string;
  /** TCP port on the loopback address; 0 selects a free one. Defaults to the machine's settings. */
  readonly port?: number;
  readonly logLevel?: LogLevel;
  readonly healthSocket?: string;
  /** Receives the line `ready URL`. Defaults to standard output. */
  readonly print?: Print;
  /** Stops the server. Defaults to SIGTERM and SIGINT. */
  readonly signal?: AbortSignal;
  /** Default: none. */
  readonly extensions?: ServerExtensions;
}

const PRIVATE = 0o700;

async function makeDirectories(paths: Paths): Promise<void> {
  const files = createFiles();
  await files.ensureDirectory(paths.dataDir);
  for (const directory of [paths.pki, paths.storeDir])
    await files.ensureDirectory(directory, PRIVATE);
}

function aborted(signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<undefined>();
  if (signal.aborted) resolve(undefined);
  signal.addEventListener(
    "abort",
    () => {
      resolve(undefined);
    },
    { once: true },
  );
  return promise;
}

/**
 * Also writes the administrator's kubeconfig.
 * @throws AppError with what startApiServer throws
 */
export async function runApiServer(run: ApiServerRun): Promise<void> {
  const signal = run.signal ?? stopSignal();
  const paths = buildPaths(run.dataDir);
  const deps = { files: createFiles(), clock: createClock(), paths };
  await makeDirectories(paths);
  const certificates = await ensureServerCertificates(deps);
  const { ca, apiServer, frontProxyCa, frontProxyClient, tokenKeyPem } = certificates;
  const { webhookClient, kubeletClient } = certificates;
  const stored = await readFields(deps.files, paths.settings);
  const logger = createLogger({ component: "apiserver", level: run.logLevel ?? "info" });
  let isReady = false;
  const checks = { isLive: () => true, isReady: () => Promise.resolve(isReady) };
  await serveHealth(run.healthSocket, checks, { log: logger, signal });
  const server = await startApiServer({
    storePath: paths.store,
    host: "127.0.0.1",
    ...apiServerOptions(run.port, stored),
    ...(run.extensions !== undefined && { extensions: run.extensions }),
    tls: apiServer,
    clientCaPem: ca.certPem,
    frontProxy: frontProxyClient,
    frontProxyCaPem: frontProxyCa.certPem,
    webhookClient,
    kubeletClient,
    tokens: [],
    tokenKeyPem,
    readMetrics: () => readMetrics(paths),
    logger,
    clock: deps.clock,
  });
  await ensureAdminKubeconfig(deps, ca, server.url);
  isReady = true;
  (run.print ?? printResult)(`ready ${server.url}`);
  await aborted(signal);
  await server.close();
}
