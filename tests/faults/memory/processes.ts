// SPDX-License-Identifier: Apache-2.0
// The three processes of a plug, each with its own loops, queues and caches, on injected ports.
import { DEFAULT_POLICY } from "@patchbay/core/nics";
import {
  KUBEVIRTS,
  names,
  NETWORK_ATTACHMENT_DEFINITIONS,
  PODS,
  VIRTUAL_MACHINE_INSTANCES,
} from "@patchbay/api";
import {
  createDefinitionFiles,
  createDeviceInfoFiles,
  createJournal,
  createResultCache,
} from "@patchbay/cni";
import { DaemonHealth } from "@patchbay/daemon/testing";
import { createFakePodDevices } from "@patchbay/device-plugin/testing";
import { createCache, createEventRecorder, joinCaches, type KubeClient } from "@patchbay/kube";
import {
  BY_NETWORK,
  listRequestedNetworks,
  runLoop as runAgent,
} from "@patchbay/net-agent/testing";
import type { Clock, Logger } from "@patchbay/base";
import { createFakeHookSidecars } from "@patchbay/hooks/testing";
import { createFakeLauncherDisks } from "@patchbay/os/testing";
import { createFakeLinkCounters } from "@patchbay/podnet/testing";
import { createMetrics } from "@patchbay/telemetry";
import { runController } from "@patchbay/virt-controller/testing";
import { createAddressStore, runLoop as runHandler } from "@patchbay/virt-handler/testing";
import type { Ground } from "./node.ts";

export interface Surroundings {
  readonly client: KubeClient;
  /** For agents: their node. */
  readonly nodeName: string;
  readonly ground: Ground;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

/** A program by its process name; resolves after an abort. */
export type Program = (surroundings: Surroundings) => Promise<void>;

function eventsOf({ client, clock, log }: Surroundings, component: string) {
  return createEventRecorder({ store: client.store, clock, logger: log, component });
}

function controller(surroundings: Surroundings): Promise<void> {
  const flags = {
    ...({
      logLevel: "info",
      launcherImage: "virt-launcher",
      sidecarShimImage: "shim",
      concurrency: 4,
      podNetworkPassesAnyMac: true,
      ovnDefaultNetwork: "ovn-kubernetes/default",
    } as const),
    leaderElect: false,
    leaseNamespace: "patchbay",
  };
  const health = new DaemonHealth(surroundings);
  const context = {
    ...surroundings,
    health,
    metrics: createMetrics("virt-controller"),
    ready: () => undefined,
    drainSignal: surroundings.signal,
  };
  return runController(context, { ...flags, healthPort: 0 });
}

async function agent(surroundings: Surroundings): Promise<void> {
  const { client, nodeName, ground, clock, log, signal } = surroundings;
  const fieldSelector = `spec.nodeName=${nodeName}`;
  const indexes = { [BY_NETWORK]: listRequestedNetworks };
  const pods = createCache(client.reflect(PODS, { fieldSelector }), { indexes, logger: log });
  const nads = createCache(client.reflect(NETWORK_ATTACHMENT_DEFINITIONS), { logger: log });
  for (const cache of [pods, nads]) cache.start(signal);
  await Promise.all([pods.synced(), nads.synced()]);
  const { files, stateDir } = ground;
  await runAgent(
    {
      store: client.store,
      pods,
      nads,
      clock,
      log,
      namespaces: ground.namespaces,
      sandboxes: ground.sandboxes,
      podNetwork: ground.podNetwork,
      defaultRoutes: ground.defaultRoutes,
      nodeNics: ground.nodeNics,
      openHostNetns: () => ({ fd: -1, inode: "host", close: () => undefined }),
      definitionFiles: createDefinitionFiles({ files, log }, `${stateDir}/definitions`),
      deviceInfo: createDeviceInfoFiles({ files, log }, `${stateDir}/devinfo`),
      podDevices: createFakePodDevices(),
      cni: ground.cni,
      journal: createJournal(files, `${stateDir}/journal`),
      resultCache: createResultCache(files, [`${stateDir}/cache`]),
      multusCache: createResultCache(files, [`${stateDir}/multus`]),
      events: eventsOf(surroundings, "net-agent"),
      bootId: "boot-1",
      hostNetnsInode: "host",
      isIsolated: true,
      mode: "alone",
      findProblems: () => Promise.resolve([]),
      policy: {
        isEnforced: true,
        describeSetting: () => "",
        current: () => DEFAULT_POLICY,
        onChange: () => undefined,
      },
      listOwnBridges: () => Promise.resolve(new Set<string>()),
      listNodeSubnets: () => Promise.resolve([]),
      listListeningPorts: () => Promise.resolve(new Set<number>()),
      concurrency: 16,
    },
    signal,
  );
}

async function handler(surroundings: Surroundings): Promise<void> {
  const { client, nodeName, ground, clock, log, signal } = surroundings;
  const watchBy = (label: string) => {
    const labelSelector = `${label}=${nodeName}`;
    const source = client.reflect(VIRTUAL_MACHINE_INSTANCES, { labelSelector });
    const cache = createCache(source, { logger: log });
    cache.start(signal);
    return cache;
  };
  const vmis = joinCaches(
    [watchBy(names.NODE_NAME_LABEL), watchBy(names.MIGRATION_TARGET_NODE_LABEL)],
    clock,
    signal,
  );
  const kubevirts = createCache(client.reflect(KUBEVIRTS), { logger: log });
  kubevirts.start(signal);
  await Promise.all([vmis.synced(), kubevirts.synced()]);
  await ground.addressServers.killLeftovers();
  await runHandler(
    {
      nodeName,
      store: client.store,
      vmis,
      kubevirts,
      clock,
      log,
      hypervisor: ground.hypervisor,
      podNetwork: ground.podNetwork,
      launchers: ground.launchers,
      linkWatch: ground.linkWatch,
      frameWatch: ground.frameWatch,
      vhostSockets: ground.vhostSockets,
      addressServers: ground.addressServers,
      hooks: createFakeHookSidecars(),
      launcherDisks: createFakeLauncherDisks(),
      addressStore: createAddressStore(ground.files, `${ground.stateDir}/addresses`),
      linkCounters: createFakeLinkCounters(),
      relays: ground.relays,
      events: eventsOf(surroundings, "virt-handler"),
      metrics: createMetrics("virt-handler"),
      concurrency: 16,
    },
    signal,
  );
}

/** The cluster's, by name. */
export const CLUSTER_PROGRAMS: Readonly<Record<string, Program>> = {
  "virt-controller": controller,
};

/** Each node's, by name. */
export const NODE_PROGRAMS: Readonly<Record<string, Program>> = {
  "net-agent": agent,
  "virt-handler": handler,
};
