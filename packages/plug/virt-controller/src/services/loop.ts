// SPDX-License-Identifier: Apache-2.0
// Brings caches, queue and loop of Services together.
import type { DaemonContext } from "@patchbay/daemon";
import { createQueue, runReconciler, type EventRecorder } from "@patchbay/kube";
import type { Store } from "@patchbay/core/ports";
import { createServiceCaches, wakeNetworkServices, type ServiceCaches } from "./caches.ts";
import { reconcileService } from "./reconcile.ts";

/** The loop, whose caches fill before it runs. */
export interface ServicesLoop {
  /** Feeds the caches; resolves when they are filled. */
  start(signal: AbortSignal): Promise<void>;
  /** Works until the signal is aborted, with what this process may write. */
  run(
    by: { readonly store: Store; readonly events: EventRecorder },
    signal: AbortSignal,
  ): Promise<void>;
}

/** Makes the loop; `others` are caches that other loops need too. */
export function createServicesLoop(
  { client, clock, log, metrics, health }: DaemonContext,
  others: Omit<ServiceCaches, "services" | "slices">,
): ServicesLoop {
  const own = createServiceCaches(client, log);
  const { vmis, nads, kubevirts } = others;
  const caches = { ...own, vmis, nads, kubevirts };
  const queue = createQueue({ clock });
  const told = new Map<string, string>();
  wakeNetworkServices(caches, (key) => {
    queue.add(key);
  });
  return {
    start: async (signal) => {
      const started = [own.services, own.slices];
      for (const cache of started) cache.start(signal);
      await Promise.all(started.map((cache) => cache.synced()));
    },
    run: (by, signal) =>
      runReconciler(
        {
          name: "services",
          queue,
          log,
          clock,
          metrics,
          watch: health.watchLoop("services"),
          reconcile: (key) => reconcileService(key, { ...caches, ...by, told }),
        },
        signal,
      ),
  };
}
