// SPDX-License-Identifier: Apache-2.0
// The three processes that a plug goes through, each with its own loops, queues and caches, on ports that it is given.
import {
  KUBEVIRTS,
  names,
  NETWORK_ATTACHMENT_DEFINITIONS,
  PODS,
  VIRTUAL_MACHINE_INSTANCES,
} from "@patchbay/api";
import { createJournal, createResultCache } from "@patchbay/cni";
import { createCache, createEventRecorder, type KubeClient } from "@patchbay/kube";
import { BY_NETWORK, networksAskedBy, runLoop as runAgent } from "@patchbay/net-agent/testing";
import type {
  Clock,
  Cni,
  Files,
  Hypervisor,
  Launchers,
  LinkWatch,
  Logger,
  Namespaces,
  PodNetwork,
  Sandboxes,
} from "@patchbay/ports";
import { createFakeAddressServers, createFakeLinkCounters } from "@patchbay/ports/testing";
import { createMetrics } from "@patchbay/telemetry";
import { runController } from "@patchbay/virt-controller/testing";
import { createAddressStore, runLoop as runHandler } from "@patchbay/virt-handler/testing";
import type { Life } from "../life.ts";

/** Where everything runs. */
export const NODE = "node1";

/** One node as its agents see it. */
export interface Ground {
  readonly files: Files;
  readonly podNetwork: PodNetwork;
  readonly cni: Cni;
  readonly namespaces: Namespaces;
  readonly sandboxes: Sandboxes;
  readonly launchers: Launchers;
  readonly linkWatch: LinkWatch;
  readonly hypervisor: Hypervisor;
}

/** What a process is started with. */
export interface Surroundings {
  readonly life: Life;
  readonly client: KubeClient;
  readonly ground: Ground;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

/** A program, by the name of its process; resolves after an abort. */
export type Program = (surroundings: Surroundings) => Promise<void>;

function eventsOf({ client, clock, log }: Surroundings, component: string) {
  return createEventRecorder({ store: client.store, clock, logger: log, component });
}

function controller(surroundings: Surroundings): Promise<void> {
  const flags = { logLevel: "info", launcherImage: "virt-launcher", concurrency: 4 } as const;
  const context = { ...surroundings, metrics: createMetrics(), ready: () => undefined };
  return runController(context, { ...flags, healthPort: 0 });
}

async function agent(surroundings: Surroundings): Promise<void> {
  const { client, ground, clock, log, signal, life } = surroundings;
  const fieldSelector = `spec.nodeName=${NODE}`;
  const indexes = { [BY_NETWORK]: networksAskedBy };
  const pods = createCache(client.reflect(PODS, { fieldSelector }), { indexes, logger: log });
  const nads = createCache(client.reflect(NETWORK_ATTACHMENT_DEFINITIONS), { logger: log });
  for (const cache of [pods, nads]) cache.start(signal);
  await Promise.all([pods.synced(), nads.synced()]);
  const files = life.bind(ground.files);
  await runAgent(
    {
      ...{ store: client.store, pods, nads, clock, log },
      ...{ namespaces: ground.namespaces, sandboxes: ground.sandboxes },
      podNetwork: life.bind(ground.podNetwork),
      cni: life.bind(ground.cni),
      journal: createJournal(files, "/state/journal"),
      resultCache: createResultCache(files, ["/cache"]),
      events: eventsOf(surroundings, "net-agent"),
      ...{ bootId: "boot-1", hostNetnsInode: "host", isIsolated: true, concurrency: 16 },
    },
    signal,
  );
}

async function handler(surroundings: Surroundings): Promise<void> {
  const { client, ground, clock, log, signal, life } = surroundings;
  const labelSelector = `${names.NODE_NAME_LABEL}=${NODE}`;
  const vmis = createCache(client.reflect(VIRTUAL_MACHINE_INSTANCES, { labelSelector }), {
    logger: log,
  });
  const kubevirts = createCache(client.reflect(KUBEVIRTS), { logger: log });
  for (const cache of [vmis, kubevirts]) cache.start(signal);
  await Promise.all([vmis.synced(), kubevirts.synced()]);
  const hypervisor: Hypervisor = {
    open: async (...where) => life.bind(await ground.hypervisor.open(...where)),
    close: () => Promise.resolve(),
  };
  await runHandler(
    {
      ...{ nodeName: NODE, store: client.store, vmis, kubevirts, clock, log, hypervisor },
      podNetwork: life.bind(ground.podNetwork),
      launchers: ground.launchers,
      linkWatch: ground.linkWatch,
      addressServers: life.bind(createFakeAddressServers()),
      addressStore: createAddressStore(life.bind(ground.files), "/state/addresses"),
      linkCounters: createFakeLinkCounters(),
      events: eventsOf(surroundings, "virt-handler"),
      concurrency: 16,
    },
    signal,
  );
}

/** By name. */
export const PROGRAMS: Readonly<Record<string, Program>> = {
  "virt-controller": controller,
  "net-agent": agent,
  "virt-handler": handler,
};
