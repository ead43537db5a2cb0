// SPDX-License-Identifier: Apache-2.0
// Life cycle of a service: connect, start, report readiness, stop on a signal. A failure ends the process.
import { messageOf, type Clock, type Logger } from "@patchbay/base";
import { createKubeClient, loadKubeConfig, type KubeClient } from "@patchbay/kube";
import { createClock } from "@patchbay/os";

import { createLogger, createMetrics, type Metrics } from "@patchbay/telemetry";
import type { CommonFlags } from "./flags.ts";
import { serveHealth } from "./health-server.ts";
import { serveMetrics } from "./metrics-server.ts";
import { DaemonHealth, type Health } from "./health.ts";
import { createAccessCheck } from "./metrics-access.ts";

/** Maximum time that a service may take to stop, in milliseconds. */
const STOP_TIMEOUT_MS = 5_000;

export interface DaemonSettings {
  readonly component: string;
  readonly flags: CommonFlags;
  readonly node?: string;
  /** Time for which the service continues after a stop signal, in milliseconds, so that clients connect to other servers. Defaults to 0. */
  readonly drainMs?: number;
}

/** Context of a service. The service must end when `signal` is aborted. */
export interface DaemonContext {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Metrics;
  /** Health checks. Loops and checks must be added before `ready` is called. */
  readonly health: Health;
  /** Aborted by the first SIGTERM or SIGINT. The service is then no longer ready, but continues for `drainMs`. */
  readonly drainSignal: AbortSignal;
  readonly signal: AbortSignal;
  /** Reports with one line on standard output that the service has started. */
  ready(): void;
}

/** Handles the first SIGTERM and the first SIGINT. A second signal of the same kind finds no handler, and ends the process. */
export function stopSignals(
  { drainMs = 0 }: Pick<DaemonSettings, "drainMs">,
  { clock, log }: { readonly clock: Clock; readonly log: Logger },
): Pick<DaemonContext, "drainSignal" | "signal"> {
  const drain = new AbortController();
  const stop = new AbortController();
  for (const name of ["SIGTERM", "SIGINT"] as const) {
    process.once(name, () => {
      log.info("stopping", { signal: name, ...(drainMs > 0 && { drainMs }) });
      const reason = new Error(`stopped by ${name}`);
      drain.abort(reason);
      if (drainMs === 0) stop.abort(reason);
      else
        clock.sleep(drainMs, stop.signal).then(
          () => {
            stop.abort(reason);
          },
          () => undefined, // Another stop signal ended the wait.
        );
    });
  }
  return { drainSignal: drain.signal, signal: stop.signal };
}

/** Waits until the service ends. After a stop signal, limits the wait, because a pending request may never be answered. */
async function waitForEnd(
  service: Promise<void>,
  signal: AbortSignal,
  clock: Clock,
): Promise<void> {
  const waitEnd = new AbortController();
  const stopped = new Promise<void>((resolve) => {
    signal.addEventListener("abort", () => {
      resolve();
    });
  });
  const deadline = stopped.then(() => clock.sleep(STOP_TIMEOUT_MS, waitEnd.signal));
  try {
    await Promise.race([service, deadline]);
  } finally {
    deadline.catch(() => undefined);
    waitEnd.abort();
  }
}

async function runUntilStopped(
  settings: DaemonSettings,
  start: (context: DaemonContext) => Promise<void>,
  log: Logger,
): Promise<void> {
  const { component, flags } = settings;
  const clock = createClock();
  const { kubeconfig } = flags;
  const config = await loadKubeConfig(kubeconfig === undefined ? {} : { kubeconfig });
  const metrics = createMetrics(component);
  const client = createKubeClient(config, {
    logger: log,
    clock,
    component,
    onRequest: (request) => {
      metrics.countApiRequest(request);
    },
  });
  const { drainSignal, signal } = stopSignals(settings, { clock, log });
  const health = new DaemonHealth({ clock, log });
  const until = { log, drainSignal, signal };
  const answers = {
    isLive: () => health.isLive(),
    isReady: () => health.isReady(),
    notes: () => health.notes(),
    liveNotes: () => health.liveNotes(),
    // The health socket also serves metrics, because only root can reach it.
    ...(flags.healthSocket !== undefined && { printMetrics: () => metrics.print() }),
  };
  await serveHealth(flags.healthSocket ?? flags.healthPort, answers, until);
  const checkAccess = createAccessCheck(client.store, clock);
  const served = {
    metrics,
    health,
    ...(flags.metricsSecure === true && { checkAccess }),
  };
  await serveMetrics(flags, served, { clock, log, signal });
  const ready = (): void => {
    health.ready();
    log.info("ready", { server: client.server });
    process.stdout.write(`ready ${component}\n`);
  };
  const context = { client, clock, log, metrics, health, drainSignal, signal, ready };
  await waitForEnd(start(context), signal, clock);
  await client.close();
}

/**
 * Runs a service until the promise that `start` returns settles. When `drainMs` have passed after a stop signal, waits at most 5 s
 * longer for this promise. If the service fails, logs the error and exits with 1.
 */
export async function runDaemon(
  settings: DaemonSettings,
  start: (context: DaemonContext) => Promise<void>,
): Promise<void> {
  const { component, flags, node } = settings;
  const log = createLogger({
    component,
    level: flags.logLevel,
    ...(node === undefined ? {} : { node }),
  });
  // The error is ignored, because the reader of standard output may have exited.
  process.stdout.on("error", () => undefined);
  try {
    await runUntilStopped(settings, start, log);
  } catch (error) {
    log.error("failed", { reason: messageOf(error), err: error });
    // Exits explicitly, because servers and watches would keep the failed process alive.
    process.exit(1);
  }
}
