// SPDX-License-Identifier: Apache-2.0
// The life of a service: connect, start, say that it is ready, stop on a signal, exit code.
import { messageOf } from "@patchbay/core";
import { createKubeClient, loadKubeConfig, type KubeClient } from "@patchbay/kube";
import { createClock } from "@patchbay/os";
import type { Clock, Logger } from "@patchbay/ports";
import { createLogger, createMetrics, type Metrics } from "@patchbay/telemetry";
import type { CommonFlags } from "./flags.ts";
import { serveHealth } from "./health.ts";
import { serveMetrics } from "./metrics-server.ts";

/** How long a service may take to stop. */
const STOP_TIMEOUT_MS = 5_000;

/** Who runs. */
export interface DaemonSettings {
  readonly component: string;
  readonly flags: CommonFlags;
  /** Name of the node, for services that run on each one. */
  readonly node?: string;
}

/** A service's connection to the cluster, its time and its log; all end with `signal`. */
export interface DaemonContext {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Metrics;
  /** Aborted when the service is to stop. */
  readonly signal: AbortSignal;
  /** Tells whoever started the service that it does its work: one line on standard output. */
  ready(): void;
}

function stopSignal(log: Logger): AbortSignal {
  const stop = new AbortController();
  for (const name of ["SIGTERM", "SIGINT"] as const) {
    process.once(name, () => {
      log.info("stopping", { signal: name });
      stop.abort(new Error(`stopped by ${name}`));
    });
  }
  return stop.signal;
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

/**
 * The whole life of a service: connects, calls `start`, which resolves when the service has ended, and waits for it,
 * after SIGTERM or SIGINT at most 5 s. Resolves with the exit code: 0, or 1 with the error in the log.
 */
export async function runDaemon(
  settings: DaemonSettings,
  start: (context: DaemonContext) => Promise<void>,
): Promise<number> {
  const { component, flags, node } = settings;
  const log = createLogger({
    component,
    level: flags.logLevel,
    ...(node === undefined ? {} : { node }),
  });
  // Whoever read the line "ready" may be gone; that is no reason to stop.
  process.stdout.on("error", () => undefined);
  const clock = createClock();
  try {
    const { kubeconfig } = flags;
    const config = await loadKubeConfig(kubeconfig === undefined ? {} : { kubeconfig });
    const metrics = createMetrics();
    const client = createKubeClient(config, {
      logger: log,
      clock,
      component,
      onRequest: (request) => {
        metrics.countApiRequest(request);
      },
    });
    const signal = stopSignal(log);
    const health = await serveHealth(flags.healthPort, log, signal);
    await serveMetrics(flags, metrics, { log, signal });
    const ready = (): void => {
      health.ready();
      log.info("ready", { server: client.server });
      process.stdout.write(`ready ${component}\n`);
    };
    const context = { client, clock, log, metrics, signal, ready };
    await ended(start(context), signal, clock);
    await client.close();
    return 0;
  } catch (error) {
    log.error("failed", { reason: messageOf(error), err: error });
    return 1;
  }
}
