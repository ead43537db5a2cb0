// SPDX-License-Identifier: Apache-2.0
import { join } from "node:path";
import {
  configVersionOf,
  KUBEVIRTS,
  names,
  VIRTUAL_MACHINE_INSTANCES,
  type KubeVirt,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { AppError, messageOf } from "@patchbay/base";
import type { NodeOffer } from "@patchbay/core/node";
import { openSandboxConnection, type SandboxConnection } from "@patchbay/cri";
import type { DaemonContext } from "@patchbay/daemon";
import { createCache, createEventRecorder, joinCaches } from "@patchbay/kube";
import {
  createPodDevices,
  offerAllSockets,
  offerDevice,
  offerSockets,
} from "@patchbay/device-plugin";
import { createHookSidecars } from "@patchbay/hooks";
import { createHypervisor } from "@patchbay/libvirt";
import {
  claimStateFormat,
  createChildStarter,
  createDeviceNodes,
  createFiles,
  createLaunchers,
  createFrameWatch,
  createLinkCounters,
  createLinkWatch,
  createNamespaces,
  createNetlink,
  createProcessRunner,
  createVhostDirectories,
  createLauncherDisks,
  createVhostSockets,
  limitProcesses,
  openVolumeSocket,
  readNetnsInode,
  type VhostDirectoriesOptions,
} from "@patchbay/os";
import {
  createDhcpServers,
  createNicDoctor,
  createPacketCaptures,
  createPodNetwork,
} from "@patchbay/podnet";
import type {
  AddressServers,
  Cache,
  HookSidecars,
  Hypervisor,
  Launchers,
  PacketCaptures,
  PodNetwork,
  Sandboxes,
  VhostSockets,
} from "@patchbay/core/interfaces";
import { createAddressStore, STATE_FORMAT } from "./addresses/address-store.ts";
import type { Flags } from "./config.ts";
import type { NodeDoctor } from "./server/guest-doctor.ts";
import { connectInPodsDir } from "./server/guest-streams.ts";
import { serveRequests } from "./server/serve-requests.ts";
import { offerNodeDevices } from "./devices.ts";
import { watchPolicies } from "./policies.ts";
import { runLoop, type GuestAccess } from "./loop.ts";
import { createRelays, type Relays } from "./relays/relays.ts";
import {
  identityFromVirtApi,
  identityFromDirectory,
  waitForIdentity,
  type ReadIdentity,
} from "./relays/node-identity.ts";

/** Maximum number of concurrent child processes that read or change links. */
const PROCESSES_MAX = 8;

/** Path of the pod-resources socket below the kubelet's directory. Source: kubelet podresources, DefaultSocketPath. */
const POD_RESOURCES_SOCKET = "pod-resources/kubelet.sock";
/** Interval between removals of socket directories that no pod uses any more, in milliseconds. */
const SWEEP_INTERVAL_MS = 30_000;

const LAUNCHERS_USER = { uid: names.LAUNCHER_UID, gid: names.LAUNCHER_UID };

function watchVmis(
  { client, clock, log, signal }: DaemonContext,
  nodeName: string,
): Cache<VirtualMachineInstance> {
  const watchBy = (label: string): Cache<VirtualMachineInstance> => {
    const labelSelector = `${label}=${nodeName}`;
    const source = client.reflect(VIRTUAL_MACHINE_INSTANCES, { labelSelector });
    const cache = createCache(source, { logger: log });
    cache.start(signal);
    return cache;
  };
  const caches = [
    watchBy(names.NODE_NAME_LABEL),
    watchBy(names.MIGRATION_TARGET_NODE_LABEL),
  ] as const;
  return joinCaches(caches, clock, signal);
}

function openHypervisor({ log, clock }: DaemonContext): Hypervisor {
  return createHypervisor({
    identity: LAUNCHERS_USER,
    starter: createChildStarter(),
    logger: log,
    clock,
  });
}

/** Creates the client for hook sidecars: a child process that runs as the launchers' user and connects to sockets in pod volumes. */
function openHooks({ clock }: DaemonContext, { podsDir }: Flags): HookSidecars {
  return createHookSidecars({
    identity: LAUNCHERS_USER,
    starter: createChildStarter(),
    clock,
    openSocket: ({ uid }, container) =>
      openVolumeSocket({
        directory: podsDir,
        path: [uid, names.EMPTY_DIR_VOLUMES, container].join("/"),
      }),
  });
}

function openLaunchers(flags: Flags, sandboxes: Sandboxes): Launchers {
  return createLaunchers({
    podsDir: flags.podsDir,
    sandboxes,
    uid: names.LAUNCHER_UID,
    hostNetnsInode: readNetnsInode(flags.hostProcess),
  });
}

function openPodNetwork({ hostProcess }: Flags): PodNetwork {
  return createPodNetwork({
    runner: limitProcesses(createProcessRunner(), PROCESSES_MAX),
    netlink: createNetlink(),
    ...(hostProcess !== undefined && { hostProcess }),
  });
}

function openIdentity(
  { client }: DaemonContext,
  { relayCertificates: directory, nodeName }: Flags,
): ReadIdentity {
  return directory === undefined
    ? identityFromVirtApi(client, nodeName)
    : identityFromDirectory(createFiles(), directory, nodeName);
}

function openRelays(context: DaemonContext, flags: Flags): Relays {
  return createRelays({
    starter: createChildStarter(),
    user: LAUNCHERS_USER,
    identity: openIdentity(context, flags),
    address: flags.relayAddress,
  });
}

async function killLeftovers<T extends { killLeftovers(): Promise<void> }>(
  programs: T,
): Promise<T> {
  await programs.killLeftovers();
  return programs;
}

function openCaptures({ stateDir }: Flags): Promise<PacketCaptures> {
  const processFamily = `virt-handler-captures:${stateDir}`;
  return killLeftovers(createPacketCaptures({ runner: createProcessRunner(), processFamily }));
}

/** Creates the doctor, which finds where frames are lost. It holds the node's network namespace open until this process exits. */
function openDoctor({ clock }: DaemonContext, { hostProcess }: Flags): NodeDoctor {
  const path = `/proc/${String(hostProcess ?? "self")}/ns/net`;
  const hostNetns = createNamespaces().open(path);
  if (hostNetns === undefined) {
    throw new AppError("OS_PATH_REFUSED", { path, reason: "it is not a network namespace" });
  }
  const runner = limitProcesses(createProcessRunner(), PROCESSES_MAX);
  return { doctor: createNicDoctor({ runner, netlink: createNetlink(), clock }), node: hostNetns };
}

function openAddressServers({ stateDir }: Flags): Promise<AddressServers> {
  const processFamily = `virt-handler:${stateDir}`;
  const [runner, namespaces] = [createProcessRunner(), createNamespaces()];
  return killLeftovers(createDhcpServers({ runner, namespaces, processFamily }));
}

function findHostRoot({ hostProcess }: Flags): string {
  return hostProcess === undefined ? "/" : `/proc/${String(hostProcess)}/root`;
}

function buildVhostOptions(flags: Flags): VhostDirectoriesOptions {
  const root = findHostRoot(flags);
  const selinuxDir = join(root, "sys/fs/selinux");
  const { dataplaneGroup } = flags;
  return { runDir: join(root, "run"), selinuxDir, uid: names.LAUNCHER_UID, dataplaneGroup };
}

function openVhostSockets(flags: Flags): VhostSockets {
  return createVhostSockets({ ...buildVhostOptions(flags), podsDir: flags.podsDir });
}

/** Offers the node's devices to the kubelet until the signal is aborted. Does nothing if no kubelet directory is configured. */
function offerDevices(
  { clock, log, signal }: DaemonContext,
  flags: Flags,
  kubevirts: Cache<KubeVirt>,
): Promise<void> {
  const { kubeletDir } = flags;
  if (kubeletDir === undefined) return Promise.resolve();
  const nodes = createDeviceNodes({ runner: createProcessRunner() });
  const directories = createVhostDirectories(buildVhostOptions(flags));
  const podDevices = createPodDevices(join(kubeletDir, POD_RESOURCES_SOCKET), clock);
  const options = {
    places: { kubeletDir, hostRoot: findHostRoot(flags) },
    user: LAUNCHERS_USER,
    sweepIntervalMs: SWEEP_INTERVAL_MS,
    deps: { nodes, directories, podDevices, files: createFiles(), clock, log },
  };
  const offer = (offered: NodeOffer, offerSignal: AbortSignal): Promise<void> => {
    if (offered.kind === "device") return offerDevice(offered, options, offerSignal);
    return offered.kind === "sockets"
      ? offerSockets(offered, options, offerSignal)
      : offerAllSockets(offered, options, offerSignal);
  };
  return offerNodeDevices({ kubevirts, offer }, signal);
}

function openRuntime(
  { clock, log, signal }: DaemonContext,
  { criEndpoint, hostProcess }: Flags,
): SandboxConnection {
  const namespaces = createNamespaces();
  return openSandboxConnection(
    { endpoints: criEndpoint, hostProcess, namespaces, clock, log },
    signal,
  );
}

/** Interval between attempts to start the server while virt-api has not created the server's certificates, in milliseconds. */
const CERTIFICATES_RETRY_INTERVAL_MS = 5000;

/** Starts the server for virt-api as soon as the server's certificates exist. Does nothing if no port is configured. */
async function serveVirtApi(
  context: DaemonContext,
  flags: Flags,
  { request, createOpenStream, createCapture, createExamine }: GuestAccess,
): Promise<void> {
  const { clock, log, signal } = context;
  const open = createOpenStream(connectInPodsDir(flags.podsDir));
  const { listenAddress, port, tlsCertFile, tlsPrivateKeyFile, clientCaFile, clientName } = flags;
  if (port === undefined) return;
  const capture = createCapture(await openCaptures(flags));
  const examine = createExamine(openDoctor(context, flags));
  const files = { certFile: tlsCertFile, keyFile: tlsPrivateKeyFile, clientCaFile };
  let lastReason = "";
  while (!signal.aborted) {
    try {
      const settings = { listenAddress, port, clientName, ...files };
      const server = await serveRequests(settings, {
        request,
        open,
        capture,
        examine,
        log,
        signal,
      });
      log.info("listening for virt-api", { port: server.port });
      await server.closed;
      return;
    } catch (error) {
      const reason = messageOf(error);
      if (reason !== lastReason) log.warn("cannot serve virt-api yet", { reason });
      lastReason = reason;
      await clock.sleep(CERTIFICATES_RETRY_INTERVAL_MS, signal).catch(() => undefined);
    }
  }
}

/** Runs virt-handler until the signal is aborted. Reports readiness when the caches are synced and the container runtime has answered. */
export async function runHandler(context: DaemonContext, flags: Flags): Promise<void> {
  const { client, clock, log, metrics, health, signal } = context;
  const { nodeName, concurrency } = flags;
  await claimStateFormat(createFiles(), flags.stateDir, STATE_FORMAT);
  const watch = health.watchLoop("vmi");
  const vmis = watchVmis(context, nodeName);
  const kubevirts = createCache(client.reflect(KUBEVIRTS), { logger: log });
  const hypervisor = openHypervisor(context);
  const { store } = client;
  const component = "virt-handler";
  const events = createEventRecorder({ store, clock, logger: log, component, host: nodeName });
  kubevirts.start(signal);
  await Promise.all([vmis.synced(), kubevirts.synced()]);
  const runtime = openRuntime(context, flags);
  health.addCheck(() => runtime.findProblem());
  health.reportConfig(() => configVersionOf(kubevirts.list()[0]));
  void runtime.runtimeReady.then(() => {
    if (!signal.aborted) context.ready();
  });
  const addressServers = await openAddressServers(flags);
  const policies = await watchPolicies(flags, context);
  const parts = {
    nodeName,
    store,
    vmis,
    kubevirts,
    hypervisor,
    ...(policies && { policies }),
    events,
    clock,
    log,
    concurrency,
    metrics,
    watch,
    launchers: openLaunchers(flags, runtime.sandboxes),
    hooks: openHooks(context, flags),
    linkWatch: createLinkWatch(),
    frameWatch: createFrameWatch(),
    podNetwork: openPodNetwork(flags),
    addressStore: createAddressStore(createFiles(), `${flags.stateDir}/addresses`),
    vhostSockets: openVhostSockets(flags),
    launcherDisks: createLauncherDisks({ podsDir: flags.podsDir, uid: names.LAUNCHER_UID }),
    addressServers,
    linkCounters: createLinkCounters(),
    relays: openRelays(context, flags),
    onGuestAccess: (access: GuestAccess) => {
      void serveVirtApi(context, flags, access);
    },
  };
  await Promise.all([
    offerDevices(context, flags, kubevirts),
    waitForIdentity(openIdentity(context, flags), context, signal),
    runLoop(parts, signal),
  ]);
  await hypervisor.close();
  await events.flush();
  runtime.close();
}
