// SPDX-License-Identifier: Apache-2.0
// Runs the API server of a standalone machine in this process.
import { startApiServer, type ServerExtensions } from "@patchbay/apiserver";
import { serveHealth } from "@patchbay/daemon/health";
import { createClock, createFiles } from "@patchbay/os";
import { createLogger, type LogLevel } from "@patchbay/telemetry/logger";
import { ensureAdminKubeconfig, ensureServerCertificates } from "./data-dir/certificates.ts";
import { printResult, createStopSignal } from "./config.ts";
import type { Print } from "./supervisor/follow.ts";
import { readFields } from "./data-dir/json.ts";
import { buildPaths, type Paths } from "./data-dir/paths.ts";
import { readMetrics } from "./metrics.ts";
import { buildApiServerOptions } from "./settings/api-server-options.ts";

export interface ApiServerRun {
  readonly dataDir: string;
  /** TCP port on the loopback address; 0 selects a free port. Defaults to the port in the settings file. */
  readonly port?: number;
  readonly logLevel?: LogLevel;
  readonly healthSocket?: string;
  /** Receives the line `ready URL`. Defaults to standard output. */
  readonly print?: Print;
  /** Stops the server when aborted. If unset, SIGTERM and SIGINT stop the server. */
  readonly signal?: AbortSignal;
  readonly extensions?: ServerExtensions;
}

const PRIVATE_MODE = 0o700;

async function makeDirectories(paths: Paths): Promise<void> {
  const files = createFiles();
  await files.ensureDirectory(paths.dataDir);
  for (const directory of [paths.pki, paths.storeDir])
    await files.ensureDirectory(directory, PRIVATE_MODE);
}

function waitUntilAborted(signal: AbortSignal): Promise<void> {
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

export async function runApiServer(run: ApiServerRun): Promise<void> {
  const signal = run.signal ?? createStopSignal();
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
    ...buildApiServerOptions(run.port, stored),
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
  await waitUntilAborted(signal);
  await server.close();
}
