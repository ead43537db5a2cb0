// SPDX-License-Identifier: Apache-2.0
import { KUBEVIRTS, NETWORK_ATTACHMENT_DEFINITIONS, PODS } from "@patchbay/api";
import {
  createBridgeRecorder,
  createCni,
  createDefinitionFiles,
  createDeviceInfoFiles,
  createJournal,
  createResultCache,
  recordBridges,
} from "@patchbay/cni";
import { openSandboxConnection } from "@patchbay/cri";
import type { DaemonContext } from "@patchbay/daemon";
import { createNoPodDevices, createPodDevices } from "@patchbay/device-plugin";
import {
  createCache,
  createEventRecorder,
  waitForCaches,
  type EventRecorder,
} from "@patchbay/kube";
import {
  createFiles,
  createNamespaces,
  createNetlink,
  createProcessRunner,
  readBootId,
  readNetnsInode,
} from "@patchbay/os";
import {
  createDefaultRoutes,
  createNodeNics,
  createPodNetwork,
  listHostLinks,
  type HostLinksDeps,
} from "@patchbay/podnet";
import type { Cni, Files, ProcessRunner } from "@patchbay/core/interfaces";
import type { Logger } from "@patchbay/base";
import type { Flags } from "./config.ts";
import { countOperations } from "./cni-metrics.ts";
import { lockState } from "./state-lock.ts";
import { openHost, findHostRoot } from "./host.ts";
import { runDefinitionLoop, type DefinitionLoopParts } from "./reconcilers/definition/loop.ts";
import { checkDefinition } from "./reconcilers/definition/observe.ts";
import { runLoop, type LoopParts } from "./loop.ts";
import { isPolicyEnforced, followPolicy } from "./policy.ts";
import { composeRuntime } from "./compose-runtime.ts";
import { BY_NETWORK, listRequestedNetworks } from "./wake.ts";

function watchObjects(
  { client, log, signal }: DaemonContext,
  flags: Flags,
  events: EventRecorder,
): Pick<LoopParts, "pods" | "nads" | "policy"> & { readonly synced: Promise<void> } {
  const fieldSelector = `spec.nodeName=${flags.nodeName}`;
  const indexes = { [BY_NETWORK]: listRequestedNetworks };
  const pods = createCache(client.reflect(PODS, { fieldSelector }), { indexes, logger: log });
  const nads = createCache(client.reflect(NETWORK_ATTACHMENT_DEFINITIONS), { logger: log });
  // Kind KubeVirt is optional, because clusters without KubeVirt do not serve it.
  const kubevirts = createCache(client.reflect(KUBEVIRTS, { isOptional: true }), { logger: log });
  const policy = followPolicy({
    isEnforced: isPolicyEnforced(flags),
    flags: flags.tenantPolicy,
    kubevirts,
    events,
    log,
  });
  for (const cache of [pods, nads, kubevirts]) cache.start(signal);
  return { pods, nads, policy, synced: waitForCaches([pods, nads, kubevirts], signal) };
}

function openLinks(
  { runner, files }: { readonly runner: ProcessRunner; readonly files: Files },
  { hostProcess }: Flags,
) {
  const netlink = createNetlink();
  return {
    netlink,
    nodeNics: createNodeNics({ netlink, files, root: findHostRoot(hostProcess) }),
    podNetwork: createPodNetwork({ runner, netlink }),
    defaultRoutes: createDefaultRoutes(netlink),
  };
}

function openFiles(
  deps: { readonly files: Files; readonly log: Logger },
  { cniCacheDir, multusDir, definitionDir, deviceInfoDir }: Flags,
) {
  return {
    resultCache: createResultCache(deps.files, cniCacheDir),
    multusCache: createResultCache(deps.files, [multusDir]),
    definitionFiles: createDefinitionFiles(deps, definitionDir),
    deviceInfo: createDeviceInfoFiles(deps, deviceInfoDir),
  };
}

function reportReady(context: DaemonContext, ...conditions: readonly Promise<unknown>[]): void {
  void Promise.all(conditions).then(() => {
    if (!context.signal.aborted) context.ready();
  });
}

function openCni(
  { runner, family }: { readonly runner: ProcessRunner; readonly family: string },
  { cniBinDir: binDirs, hostProcess }: Flags,
) {
  const hostOption = hostProcess === undefined ? {} : { hostProcess };
  return createCni({ runner, binDirs, family, ...hostOption });
}

function openEvents({ client, clock, log }: DaemonContext, { nodeName }: Flags): EventRecorder {
  const { store } = client;
  const eventSource = { component: "net-agent", host: nodeName };
  return createEventRecorder({ store, clock, logger: log, ...eventSource });
}

function observeCni(
  cni: Cni,
  deps: HostLinksDeps & {
    readonly files: Files;
    readonly log: Logger;
    readonly bootId: string;
    readonly metrics: DaemonContext["metrics"];
  },
  { stateDir, hostProcess }: Flags,
): Cni {
  const { files, log, bootId, metrics } = deps;
  const listLinks = (): ReturnType<typeof listHostLinks> => listHostLinks(hostProcess, deps);
  const recorder = createBridgeRecorder({ files, log, bootId, stateDir, listHostLinks: listLinks });
  return recordBridges(countOperations(cni, metrics), recorder);
}

function openPodDevices({ podResourcesSocket: socket }: Flags, clock: DaemonContext["clock"]) {
  return socket === "none" ? createNoPodDevices() : createPodDevices(socket, clock);
}

/** Runs the agent until the signal is aborted, and then completes running operations. */
export async function runAgent(context: DaemonContext, flags: Flags): Promise<void> {
  const { clock, log, health, signal } = context;
  const { store } = context.client;
  const files = createFiles();
  const runner = createProcessRunner();
  const lock = await lockState(flags.stateDir, { files, clock, log }, signal);
  if (lock === undefined) return;
  const family = `net-agent:${flags.stateDir}`;
  // Kills CNI plugins that an earlier net-agent started, because they could still use addresses that this process releases.
  await runner.killProcessFamily(family);
  const namespaces = createNamespaces();
  const events = openEvents(context, flags);
  const { synced, ...objects } = watchObjects(context, flags, events);
  const runtimeConnection = openSandboxConnection(
    { endpoints: flags.criEndpoint, hostProcess: flags.hostProcess, namespaces, clock, log },
    signal,
  );
  health.addCheck(() => runtimeConnection.findProblem());
  const runtimeServer = composeRuntime(flags, { files, log, pods: objects.pods });
  const links = openLinks({ runner, files }, flags);
  const bootId = await readBootId(files);
  const cniDeps = { files, log, bootId, namespaces, metrics: context.metrics, ...links };
  const { definitionFiles, ...caches } = openFiles({ files, log }, flags);
  const { listListeningPorts, ...host } = openHost({ files, namespaces, bootId, ...links }, flags);
  const definitions: DefinitionLoopParts = {
    store,
    ...objects,
    ...runtimeServer.parts,
    definitionFiles,
    events,
    clock,
    log,
    ...host,
    nodeName: flags.nodeName,
    metrics: context.metrics,
  };
  const parts: LoopParts = {
    ...definitions,
    ...caches,
    namespaces,
    journal: createJournal(files, `${flags.stateDir}/journal`),
    sandboxes: runtimeConnection.sandboxes,
    podDevices: openPodDevices(flags, clock),
    ...links,
    findProblems: async (network) => (await checkDefinition(network, definitions)).problems,
    listListeningPorts,
    cni: observeCni(openCni({ runner, family }, flags), cniDeps, flags),
    bootId,
    hostNetnsInode: readNetnsInode(flags.hostProcess),
    isIsolated: flags.namespaceIsolation,
    mode: flags.mode,
    watch: health.watchLoop("pod"),
    ...runtimeServer.parts,
    concurrency: flags.concurrency,
  };
  await synced;
  reportReady(context, runtimeConnection.runtimeReady, runtimeServer.serving);
  await Promise.all([runLoop(parts, signal), runDefinitionLoop(definitions, signal)]);
  await events.flush();
  runtimeConnection.close();
  lock.release();
}
