// SPDX-License-Identifier: Apache-2.0
import { ENDPOINT_SLICES, SERVICES, type VirtualMachineInstance } from "@patchbay/api";
import type { Service } from "@patchbay/api/kubernetes";

import {
  requestedNetworks,
  NETWORK_SLICE_WRITER,
  networkServicePlan,
  planReachCondition,
  planSlices,
  readTrustedNamespaces,
} from "@patchbay/core/services";
import type { Store } from "@patchbay/core/interfaces";
import {
  done,
  parseKey,
  performWrite,
  printTime,
  type EventRecorder,
  type Next,
  createQueue,
  runReconciler,
} from "@patchbay/kube";
import {
  BY_NETWORK,
  BY_SERVICE,
  type ServiceCaches,
  createServiceCaches,
  enqueueNetworkServices,
} from "./caches.ts";
import type { Clock } from "@patchbay/base";
import type { DaemonContext } from "@patchbay/daemon";

interface ServiceDeps extends ServiceCaches {
  readonly store: Pick<Store, "create" | "update" | "delete" | "patch">;
  readonly clock: Pick<Clock, "now">;
  readonly events: Pick<EventRecorder, "record">;
  /** Last reported rejection by Service key. Each rejection is reported once. */
  readonly lastRejections: Map<string, string>;
}

/** Records an event if the Service is rejected for a new reason. */
function reportRefusal(
  {
    key,
    service,
    refusal,
  }: { readonly key: string; readonly service: Service; readonly refusal: string | undefined },
  deps: ServiceDeps,
): void {
  if (refusal === undefined) deps.lastRejections.delete(key);
  else if (deps.lastRejections.get(key) !== refusal) {
    deps.lastRejections.set(key, refusal);
    const note = { type: "Warning", reason: "ServiceNetworkRefused", message: refusal } as const;
    deps.events.record(service, note);
  }
}

/** Reconciles a Service. Garbage collection deletes the slices of a deleted Service. */
export async function reconcileService(key: string, deps: ServiceDeps): Promise<Next> {
  const service = deps.services.find(parseKey(key));
  if (service === undefined || service.metadata.deletionTimestamp !== undefined) {
    deps.lastRejections.delete(key);
    return done();
  }
  const [network] = requestedNetworks(service);
  const listVmis = (): readonly VirtualMachineInstance[] =>
    network === undefined ? [] : deps.vmis.listBy(BY_NETWORK, network);
  const definition = network === undefined ? undefined : deps.nads.find(parseKey(network));
  const { slices, refusal } = networkServicePlan({
    service,
    vmis: listVmis(),
    definition,
    trustedNamespaces: readTrustedNamespaces(deps.kubevirts.list()[0]),
  });
  const existingSlices = deps.slices.listBy(BY_SERVICE, key);
  for (const { kind, slice } of planSlices(slices, existingSlices, NETWORK_SLICE_WRITER)) {
    await performWrite(deps.store, ENDPOINT_SLICES, { kind, object: slice });
  }
  reportRefusal({ key, service, refusal }, deps);
  const facts = { definition, ...(refusal !== undefined && { refusal }) };
  const operations = planReachCondition(service, facts, printTime(deps.clock.now()));
  if (operations.length > 0) {
    const patch = { type: "json", operations } as const;
    await deps.store.patch(SERVICES, parseKey(key), patch, { subresource: "status" });
  }
  return done();
}

interface ServicesLoop {
  start(signal: AbortSignal): Promise<void>;
  run(
    writers: { readonly store: Store; readonly events: EventRecorder },
    signal: AbortSignal,
  ): Promise<void>;
}

/** Creates the loop. Other loops also use `sharedCaches`. */
export function createServicesLoop(
  { client, clock, log, metrics, health }: DaemonContext,
  sharedCaches: Omit<ServiceCaches, "services" | "slices">,
): ServicesLoop {
  const ownCaches = createServiceCaches(client, log);
  const { vmis, nads, kubevirts } = sharedCaches;
  const caches = { ...ownCaches, vmis, nads, kubevirts };
  const queue = createQueue({ clock });
  const lastRejections = new Map<string, string>();
  enqueueNetworkServices(caches, (key) => {
    queue.add(key);
  });
  return {
    start: async (signal) => {
      const startedCaches = [ownCaches.services, ownCaches.slices];
      for (const cache of startedCaches) cache.start(signal);
      await Promise.all(startedCaches.map((cache) => cache.synced()));
    },
    run: (writers, signal) =>
      runReconciler(
        {
          name: "services",
          queue,
          log,
          clock,
          metrics,
          watch: health.watchLoop("services"),
          reconcile: (key) =>
            reconcileService(key, { ...caches, ...writers, clock, lastRejections }),
        },
        signal,
      ),
  };
}
