// SPDX-License-Identifier: Apache-2.0
// The API server of a standalone machine, in this process.
import { startApiServer } from "@patchbay/apiserver";
import { serveHealth } from "@patchbay/daemon/health";
import { createClock, createFiles } from "@patchbay/os";
import { createLogger, type LogLevel } from "@patchbay/telemetry/logger";
import { keepAdminKubeconfig, keepServerCertificates } from "./data-dir/certificates.ts";
import { printResult, stopSignal } from "./config.ts";
import type { Print } from "./supervisor/follow.ts";
import { readFields } from "./data-dir/json.ts";
import { pathsOf, type Paths } from "./data-dir/paths.ts";
import { readMetrics } from "./metrics/read.ts";
import { apiServerOptions } from "./settings/api-server-options.ts";

/** How the API server is to run. */
export interface ApiServerRun {
  /** Absolute. */
  readonly dataDir: string;
  /** TCP port on the loopback address; 0 takes a free one. Absent: that of the machine's settings. */
  readonly port?: number;
  readonly logLevel?: LogLevel;
  /** A Unix socket where it answers whether it lives; absent: nowhere. */
  readonly healthSocket?: string;
  /** Gets the one line `ready URL`; absent: standard output. */
  readonly print?: Print;
  /** Stops it; absent: SIGTERM and SIGINT do. */
  readonly signal?: AbortSignal;
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
 * Runs the API server until it is told to stop; writes the administrator's kubeconfig.
 * @throws AppError with what startApiServer throws
 */
export async function runApiServer(run: ApiServerRun): Promise<void> {
  const signal = run.signal ?? stopSignal();
  const paths = pathsOf(run.dataDir);
  const deps = { files: createFiles(), clock: createClock(), paths };
  await makeDirectories(paths);
  const certificates = await keepServerCertificates(deps);
  const { ca, apiServer, frontProxyCa, frontProxyClient, tokenKeyPem } = certificates;
  const { webhookClient, kubeletClient } = certificates;
  const kept = await readFields(deps.files, paths.settings);
  const logger = createLogger({ component: "apiserver", level: run.logLevel ?? "info" });
  let isReady = false;
  const answers = { isLive: () => true, isReady: () => Promise.resolve(isReady) };
  await serveHealth(run.healthSocket, answers, { log: logger, signal });
  const server = await startApiServer({
    storePath: paths.store,
    host: "127.0.0.1",
    ...apiServerOptions(run.port, kept),
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
  await keepAdminKubeconfig(deps, ca, server.url);
  isReady = true;
  (run.print ?? printResult)(`ready ${server.url}`);
  await aborted(signal);
  await server.close();
}
