// SPDX-License-Identifier: Apache-2.0
// Connects the adapters and starts the loops. Contains no decisions.
import { lookup } from "node:dns/promises";
import { join, resolve, dirname } from "node:path";
import { createBridgeRecorder, parseNetworkConfig } from "@patchbay/cni";
import {
  createNamespaces,
  createNetlink,
  readBootId,
  limitControlGroup,
  createClaimDisk,
  createFiles,
  createProcessRunner,
} from "@patchbay/os";
import { createPodNetwork, listHostLinks } from "@patchbay/podnet";
import type {
  Files,
  NetworkConfigList,
  ProcessRunner,
  Cache,
  ContainerRuntime,
  ExecPrograms,
} from "@patchbay/core/interfaces";
import { type Logger, messageOf } from "@patchbay/base";
import { type Flags, readArchitecture } from "./config.ts";
import { type PodDeps, UID_INDEX } from "./pods/deps.ts";
import { serveKubeletApi, type KubeletApiDeps } from "./kubelet-api/serve.ts";

import {
  readMachine,
  type MachineSources,
  readIdentity,
  type MachineIdentity,
} from "./node/machine.ts";
import { computePodQuota } from "./node/status.ts";
import { KUBEVIRTS, NODES, PODS } from "@patchbay/api";
import type { KubeNode, Pod } from "@patchbay/api/kubernetes";
import { buildLayout, OWN_NETWORK_RUNTIME } from "@patchbay/containerd";
import {
  createContainerRuntime,
  createExecPrograms,
  DEFAULT_CRI_ENDPOINTS,
  findProblem,
} from "@patchbay/cri";
import type { DaemonContext } from "@patchbay/daemon";
import {
  createCache,
  createEventRecorder,
  createStepBackoff,
  createQueue,
  runReconciler,
  type KubeClient,
  type LostWriteReporter,
  waitForCaches,
  type Queue,
} from "@patchbay/kube";
import { controlNode, openClient } from "./compose/control.ts";
import {
  createImageDeps,
  type ImageDeps,
  choosePullGuard,
  runVolumes,
  POD_PASS_TIMEOUT_MS,
  createVolumeDeps,
  bindVolumes,
  type VolumeMachine,
} from "./compose/volumes.ts";
import { createSweeper, sweepAfterReconnects, createSweep } from "./compose/orphans.ts";
import { createImageAccess, createRegistryPolicy } from "./images/access.ts";
import { runImageGarbageCollection } from "./images/garbage.ts";
import { rotateLogs } from "./log-rotation.ts";
import { LeaseAge, sendHeartbeat, runHeartbeat, type NodeDeps } from "./node/heartbeat.ts";
import { createPasses, needsPass } from "./pods/reconcile-pod.ts";
import type { VolumeDeps } from "./volumes/index.ts";
import { createPodUidIndex } from "./pods/owners.ts";
import { createPulls } from "./pods/pulls.ts";
import { createStops } from "./pods/stops.ts";
import { createAdmission } from "./schedule/admission.ts";
import { createProbes } from "./probes/probes.ts";
import { findPodUid } from "./translate/labels.ts";
import type { NodeFacts } from "./translate/node-facts.ts";

export async function readNetworkConfigs(
  files: Files,
  directory: string,
): Promise<readonly NetworkConfigList[]> {
  const names = await files.list(directory);
  const texts = await Promise.all(names.map((name) => files.readText(join(directory, name))));
  return texts.flatMap((text) => {
    const parsed = parseNetworkConfig(text ?? "", "");
    return parsed.ok ? [parsed.config] : [];
  });
}

async function composeBridgeRecorder(
  {
    files,
    runner,
    log,
  }: {
    readonly files: Files;
    readonly runner: ProcessRunner;
    readonly log: Logger;
  },
  { stateDir, cniConfDir }: Flags,
): Promise<PodDeps["observeNetworks"]> {
  const namespaces = createNamespaces();
  const podNetwork = createPodNetwork({ runner, netlink: createNetlink() });
  const recorder = createBridgeRecorder({
    files,
    log,
    stateDir: resolve(stateDir),
    bootId: await readBootId(files),
    listHostLinks: () => listHostLinks(undefined, { namespaces, podNetwork }),
  });
  const directory = resolve(cniConfDir);
  return async (makeSandbox) =>
    recorder.observe(await readNetworkConfigs(files, directory), makeSandbox);
}

/** Serves the kubelet API and returns its port. Serves nothing and returns 0 if one of the certificate flags is missing. */
async function listenToApiServer(
  deps: KubeletApiDeps & { readonly signal: AbortSignal; readonly hostIp: string },
  flags: Flags,
): Promise<number> {
  const { tlsCertFile: certFile, tlsPrivateKeyFile: keyFile, clientCaFile } = flags;
  if (certFile === undefined || keyFile === undefined || clientCaFile === undefined) return 0;
  const { listenAddress = deps.hostIp, clientName: clientNames } = flags;
  const settings = { listenAddress, port: Number(flags.port), certFile, keyFile };
  const server = await serveKubeletApi(
    deps,
    { ...settings, clientCaFile, clientNames },
    deps.signal,
  );
  return server.port;
}

/** Limits memory and processes of all pods together, so that pods cannot exhaust the host. Logs a failure as a warning. */
async function limitPodsGroup(sources: MachineSources, group: string, log: Logger): Promise<void> {
  const { memoryKiB, processes } = computePodQuota(await readMachine(sources));
  try {
    const missingControllers = await limitControlGroup(group, {
      memoryBytes: memoryKiB * 1024,
      processes,
    });
    if (missingControllers.length === 0) return;
    log.warn("limits of the pods' control group not set", {
      reason: `missing cgroup controllers: ${missingControllers.join(", ")}`,
    });
  } catch (error) {
    log.warn("limits of the pods' control group not set", { reason: messageOf(error) });
  }
}

const CONCURRENCY = 8;
const PROBE_CONCURRENCY = 2;
const RUNTIME_RETRY_INTERVAL_MS = 500;

interface Machine extends VolumeMachine {
  readonly runtime: ContainerRuntime;
  readonly programs: ExecPrograms;
  readonly runtimeName: string;
  readonly identity: MachineIdentity;
  readonly imageDeps: ImageDeps;
}

function uidOf(pod: Pod): string {
  return pod.metadata.uid ?? "";
}

async function waitForRuntime(
  runtime: ContainerRuntime,
  { clock, log, signal }: DaemonContext,
): Promise<{ readonly name: string; readonly version: string }> {
  for (;;) {
    try {
      return await runtime.version();
    } catch (error) {
      log.warn("the container runtime does not answer", { reason: messageOf(error) });
      await clock.sleep(RUNTIME_RETRY_INTERVAL_MS, signal);
    }
  }
}

function parsePodApiServer(address: string | undefined): Pick<NodeFacts, "apiServer"> {
  const [host = "", port = ""] = address?.split(/:(?=\d+$)/) ?? [];
  return host === "" || port === "" ? {} : { apiServer: { host, port } };
}

function listCriEndpoints({ criEndpoint }: Flags): readonly string[] {
  return criEndpoint ?? DEFAULT_CRI_ENDPOINTS;
}

/** Returns the layout of the containerd that this node manages. Returns no layout when another program manages containerd. */
function findContainerd(flags: Flags): Pick<Machine, "containerd"> {
  const { containerdDir, cniConfDir } = flags;
  const socket = listCriEndpoints(flags)[0]?.replace(/^unix:\/\//, "");
  if (containerdDir === undefined || socket === undefined) return {};
  const directory = resolve(containerdDir);
  const options = { directory, runDirectory: dirname(socket), cniConfDirectory: cniConfDir };
  return { containerd: buildLayout(options) };
}

function findClaimMachine(
  { files, runner }: Pick<Machine, "files" | "runner">,
  { claimsDir }: Flags,
): Pick<Machine, "claims"> {
  if (claimsDir === undefined) return {};
  return { claims: { disk: createClaimDisk({ runner }), files, claimsDir: resolve(claimsDir) } };
}

async function readMemory(files: Files): Promise<number> {
  const text = (await files.readText("/proc/meminfo")) ?? "";
  return Number(/^MemTotal:\s*(\d+) kB$/m.exec(text)?.[1] ?? "0") * 1024;
}

function findDnsFacts({
  clusterDns: server,
  clusterDomain: domain,
}: Flags): Pick<NodeFacts, "dns"> {
  return server === undefined ? {} : { dns: { server, domain } };
}

async function findMachine(context: DaemonContext, flags: Flags): Promise<Machine> {
  const files = createFiles();
  const runner = createProcessRunner();
  const connection = { endpoints: listCriEndpoints(flags), clock: context.clock };
  const runtime = createContainerRuntime(connection);
  const programs = createExecPrograms(connection);
  context.signal.addEventListener("abort", () => {
    runtime.close();
    programs.close();
  });
  const { name, version } = await waitForRuntime(runtime, context);
  const identitySources = {
    architecture: readArchitecture(),
    runtimeVersion: `${name}://${version}`,
  };
  const identity = await readIdentity({ files, runner }, identitySources);
  const facts: NodeFacts = {
    name: flags.nodeName,
    hostIp: identity.hostIp,
    podsDir: resolve(flags.podsDir),
    logDir: resolve(flags.logDir),
    cgroupParent: flags.cgroupParent,
    memoryBytes: await readMemory(files),
    ...(flags.containerdDir !== undefined && { ownNetworkRuntime: OWN_NETWORK_RUNTIME }),
    ...findDnsFacts(flags),
    ...parsePodApiServer(flags.podApiServer),
  };
  const claims = findClaimMachine({ files, runner }, flags);
  await files.ensureDirectory(facts.podsDir);
  await files.ensureDirectory(facts.logDir, 0o700);
  const stateDir = resolve(flags.stateDir);
  await files.ensureDirectory(stateDir, 0o700);
  const { dataplaneGroup } = flags;
  const machineParts = { files, runner, dataplaneGroup, ...findContainerd(flags) };
  const imageDeps = createImageDeps(machineParts, join(stateDir, "image-grants"), context.log);
  return {
    ...machineParts,
    runtime,
    programs,
    runtimeName: name,
    identity,
    facts,
    imageDeps,
    ...claims,
  };
}

/** `nodeClient` serves only the node's own life: Lease, status of node and pods, and the watches of both. */
interface NodeContext extends DaemonContext {
  readonly nodeClient: KubeClient;
}

function startNodes({ nodeClient, log, signal }: NodeContext, nodeName: string): Cache<KubeNode> {
  const reflector = nodeClient.reflect(NODES, { fieldSelector: `metadata.name=${nodeName}` });
  const nodes = createCache(reflector, { logger: log });
  nodes.start(signal);
  return nodes;
}

function startPods({ nodeClient, log, signal }: NodeContext, nodeName: string): Cache<Pod> {
  const reflector = nodeClient.reflect(PODS, { fieldSelector: `spec.nodeName=${nodeName}` });
  const indexes = { [UID_INDEX]: (pod: Pod) => [uidOf(pod)] };
  const pods = createCache(reflector, { indexes, logger: log });
  pods.start(signal);
  return pods;
}

function machineSources({ files, runtime, facts }: Machine, { cniConfDir }: Flags): MachineSources {
  return { files, runtime, podsDir: facts.podsDir, cniConfDir: resolve(cniConfDir) };
}

async function startNode(
  { nodeClient, clock, log, health, signal }: NodeContext,
  machine: Machine,
  nodeOptions: { readonly flags: Flags; readonly port: number; readonly nodes: Cache<KubeNode> },
): Promise<NodeDeps> {
  const { nodeName } = nodeOptions.flags;
  const { identity } = machine;
  const leaseAge = new LeaseAge(clock);
  health.addLiveNote(() => leaseAge.print());
  const node: NodeDeps = {
    store: nodeClient.store,
    leaseAge,
    clock,
    log,
    nodeName,
    identity,
    port: nodeOptions.port,
    ...machineSources(machine, nodeOptions.flags),
  };
  await waitForCaches([nodeOptions.nodes], signal);
  if (!signal.aborted) await sendHeartbeat(node, nodeOptions.nodes.find({ name: nodeName }));
  return node;
}

async function wakeAll(deps: PodDeps, queue: Queue): Promise<void> {
  const directories = await deps.files.list(deps.node.podsDir);
  const sandboxes = await deps.runtime.listSandboxes();
  const uids = sandboxes.flatMap(({ labels }) => findPodUid(labels) ?? []);
  for (const uid of [...directories, ...uids, ...deps.pods.list().map(uidOf)]) queue.add(uid);
}

function followRuntime(deps: PodDeps, queue: Queue, signal: AbortSignal): void {
  const wake = async (id: string | undefined): Promise<void> => {
    const uid = id === undefined ? undefined : await deps.owners.find(id);
    if (uid !== undefined) queue.add(uid);
    else if (id === undefined) await wakeAll(deps, queue);
  };
  deps.runtime.watch((id) => {
    wake(id).catch((error: unknown) => {
      deps.log.warn("the container runtime is not running", { reason: messageOf(error) });
    });
  }, signal);
}

/** Resolves a host like containerd. Returns an empty list if that fails, because the pull then reports the failure. */
async function resolveHost(host: string): Promise<readonly string[]> {
  const results = await lookup(host, { all: true }).catch(() => []);
  return results.map(({ address }) => address);
}

function composePods(
  context: NodeContext,
  machine: Machine,
  options: {
    readonly queue: Queue;
    readonly probeQueue: Queue;
    readonly volumes: VolumeDeps;
    readonly nodes: Cache<KubeNode>;
    readonly observeNetworks: PodDeps["observeNetworks"];
  },
): PodDeps {
  const { queue, probeQueue, volumes, nodes, observeNetworks } = options;
  const { client, nodeClient, clock, log, signal } = context;
  const { files, runtime, runtimeName, facts, imageDeps } = machine;
  const wake = (uid: string, afterMs = 0): void => {
    if (afterMs > 0) queue.addAfter(uid, afterMs);
    else queue.add(uid);
  };
  const { store } = client;
  const pods = startPods(context, facts.name);
  const component = { component: "node-runtime", host: facts.name };
  const recorder = createEventRecorder({ store, clock, logger: log, ...component });
  const wakeProbed = (uid: string): void => {
    probeQueue.add(uid);
  };
  return {
    store,
    statusStore: nodeClient.store,
    runtime,
    runtimeName,
    files,
    clock,
    log,
    node: facts,
    pods,
    recorder,
    admission: createAdmission({ pods, findNode: () => nodes.find({ name: facts.name }) }),
    volumes: bindVolumes(volumes),
    disk: volumes.disk,
    probes: createProbes(
      { runtime, clock, log, recorder, hostIp: facts.hostIp, wake: wakeProbed },
      signal,
    ),
    stepBackoff: createStepBackoff({ clock }),
    owners: createPodUidIndex(runtime),
    pulls: createPulls({
      runtime,
      clock,
      log,
      wake,
      registries: createRegistryPolicy({
        readKubeVirt: async () => (await store.list(KUBEVIRTS)).items[0],
        resolve: resolveHost,
      }),
      guard: choosePullGuard(context, machine),
      access: createImageAccess(imageDeps),
    }),
    stops: createStops({ runtime, clock, log, wake }),
    sweeper: createSweeper({ sweep: createSweep(machine, log), clock, log }, signal),
    releasedSandboxIds: new Set(),
    observeNetworks,
  };
}

/** Runs the passes over pods. Results of probes have their own queue, because slow steps can occupy the other. */
async function runPods(
  { clock, health, log, metrics, signal }: NodeContext,
  deps: PodDeps,
  { queue, probeQueue }: { readonly queue: Queue; readonly probeQueue: Queue },
): Promise<void> {
  const { reconcile, reconcileProbes } = createPasses(deps, (uid) => {
    queue.add(uid);
  });
  const lostWrites: LostWriteReporter = {
    events: deps.recorder,
    find: (_resource, key) => deps.pods.find(key),
  };
  const loop = { log, clock, metrics, lostWrites };
  await Promise.all([
    runReconciler(
      {
        ...loop,
        name: "pod",
        queue,
        reconcile,
        watch: health.watchLoop("pod", POD_PASS_TIMEOUT_MS),
      },
      signal,
    ),
    runReconciler(
      {
        ...loop,
        name: "probe",
        queue: probeQueue,
        reconcile: reconcileProbes,
        watch: health.watchLoop("probe"),
      },
      signal,
    ),
  ]);
}

/** Runs the node's loops until the signal is aborted. The pods continue to run afterwards. */
export async function runNode(context: DaemonContext, flags: Flags): Promise<void> {
  const nodeClient = await openClient(context, "node-runtime", flags.kubeconfig);
  try {
    await runNodeLoops({ ...context, nodeClient }, flags);
  } finally {
    await nodeClient.close();
  }
}

async function runNodeLoops(context: NodeContext, flags: Flags): Promise<void> {
  const { clock, health, log, signal } = context;
  const machine = await findMachine(context, flags);
  await limitPodsGroup(machineSources(machine, flags), flags.cgroupParent, log);
  health.addCheck(() => findProblem({ runtime: machine.runtime, clock }));
  const queue = createQueue({ clock, concurrency: CONCURRENCY });
  const probeQueue = createQueue({ clock, concurrency: PROBE_CONCURRENCY });
  const volumes = createVolumeDeps(context, machine);
  const nodes = startNodes(context, flags.nodeName);
  const observeNetworks = await composeBridgeRecorder({ ...machine, log }, flags);
  const podOptions = { queue, probeQueue, volumes, nodes, observeNetworks };
  const deps = composePods(context, machine, podOptions);
  const { programs, facts } = machine;
  const serving = { ...deps, programs, signal, hostIp: facts.hostIp };
  const port = await listenToApiServer(serving, flags);
  const node = await startNode(context, machine, { flags, port, nodes });
  await waitForCaches([deps.pods], signal);
  if (signal.aborted) return;
  deps.pods.onChange((change) => {
    if (!needsPass(change)) return;
    queue.add(uidOf(change.kind === "deleted" ? change.previous : change.current));
  });
  followRuntime(deps, queue, signal);
  sweepAfterReconnects(deps.runtime, deps.sweeper, signal);
  rotateLogs({ runtime: deps.runtime, files: deps.files, clock, log }, signal);
  await wakeAll(deps, queue);
  context.ready();
  const watches = { node: health.watchLoop("node"), lease: health.watchLoop("lease") };
  await Promise.all([
    runPods(context, deps, { queue, probeQueue }),
    runHeartbeat({ ...node, watches }, nodes, signal),
    runVolumes(context, volumes, { ...machine, pods: deps.pods }),
    runImageGarbageCollection(
      { ...deps, ...machine.imageDeps, podsDir: deps.node.podsDir },
      signal,
    ),
    controlNode(context, machine, flags),
  ]);
}
