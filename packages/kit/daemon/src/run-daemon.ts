// SPDX-License-Identifier: Apache-2.0
// The life of a service: connect, start, say that it is ready, stop on a signal; what fails ends the process.
import { messageOf } from "@patchbay/core";
import { createKubeClient, loadKubeConfig, type KubeClient } from "@patchbay/kube";
import { createClock } from "@patchbay/os";
import type { Clock, Logger } from "@patchbay/core/ports";
import { createLogger, createMetrics, type Metrics } from "@patchbay/telemetry";
import type { CommonFlags } from "./flags.ts";
import { serveHealth } from "./health-server.ts";
import { DaemonHealth, type Health } from "./health.ts";
import { askApiServerForAccess } from "./metrics-access.ts";
import { serveMetrics } from "./metrics-server.ts";

/** How long a service may take to stop. */
const STOP_TIMEOUT_MS = 5_000;

/** Who runs. */
export interface DaemonSettings {
  readonly component: string;
  readonly flags: CommonFlags;
  /** Name of the node, for services that run on each one. */
  readonly node?: string;
  /** For how long the service goes on after it was told to stop, so that nobody is sent to it who finds nobody; default 0. */
  readonly drainMs?: number;
}

/** A service's connection to the cluster, its time and its log; all end with `signal`. */
export interface DaemonContext {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Metrics;
  /** What probes are told: each loop and what the work rests on is entered here before `ready`. */
  readonly health: Health;
  /** Aborted when the service was told to stop: it is not ready any more, and goes on for a while. */
  readonly leaving: AbortSignal;
  /** Aborted when the service is to stop. */
  readonly signal: AbortSignal;
  /** Tells whoever started the service that it has started: one line on standard output. */
  ready(): void;
}

/** Told to leave, and to stop after a while; who tells it twice does not want to wait. */
function stopSignals(
  { drainMs = 0 }: DaemonSettings,
  { clock, log }: { readonly clock: Clock; readonly log: Logger },
): Pick<DaemonContext, "leaving" | "signal"> {
  const leave = new AbortController();
  const stop = new AbortController();
  for (const name of ["SIGTERM", "SIGINT"] as const) {
    process.once(name, () => {
      log.info("stopping", { signal: name, ...(drainMs > 0 && { drainMs }) });
      const reason = new Error(`stopped by ${name}`);
      leave.abort(reason);
      if (drainMs === 0) stop.abort(reason);
      else
        void clock.sleep(drainMs, stop.signal).then(() => {
          stop.abort(reason);
        });
    });
  }
  return { leaving: leave.signal, signal: stop.signal };
}

/** Waits for the service's end, after a stop not for ever: a server that never answered must not hold it up. */
async function ended(service: Promise<void>, signal: AbortSignal, clock: Clock): Promise<void> {
  const over = new AbortController();
  const stopped = new Promise<void>((resolve) => {
    signal.addEventListener("abort", () => {
      resolve();
    });
  });
  const deadline = stopped.then(() => clock.sleep(STOP_TIMEOUT_MS, over.signal));
  try {
    await Promise.race([service, deadline]);
  } finally {
    deadline.catch(() => undefined); // the wait is not needed any more
    over.abort();
  }
}

/** As in `runDaemon`, but for what becomes of a failure. */
async function live(
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
  const { leaving, signal } = stopSignals(settings, { clock, log });
  const health = new DaemonHealth({ clock, log });
  const until = { log, leaving, signal };
  const answers = {
    isLive: () => health.isLive(),
    isReady: () => health.isReady(),
    notes: () => health.notes(),
    // Only root reaches the socket; the port is for anybody.
    ...(flags.healthSocket !== undefined && { printMetrics: () => metrics.print() }),
  };
  await serveHealth(flags.healthSocket ?? flags.healthPort, answers, until);
  const askForAccess = askApiServerForAccess(client.store, clock);
  const served = { metrics, health, ...(flags.metricsSecure === true && { askForAccess }) };
  await serveMetrics(flags, served, { clock, log, signal });
  const ready = (): void => {
    health.ready();
    log.info("ready", { server: client.server });
    process.stdout.write(`ready ${component}\n`);
  };
  const context = { client, clock, log, metrics, health, leaving, signal, ready };
  await ended(start(context), signal, clock);
  await client.close();
}

/**
 * The whole life of a service: connects, calls `start`, which resolves when the service has ended, and waits for it,
 * after SIGTERM or SIGINT at most 5 s. A failure, at the start or later, is logged and ends the process with 1.
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
  // Whoever read the line "ready" may be gone; that is no reason to stop.
  process.stdout.on("error", () => undefined);
  try {
    await live(settings, start, log);
  } catch (error) {
    log.error("failed", { reason: messageOf(error), err: error });
    // At once: its servers and watches would keep a process that does nothing, and says that it lives.
    process.exit(1);
  }
}
