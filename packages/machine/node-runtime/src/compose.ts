// SPDX-License-Identifier: Apache-2.0
// Brings the adapters together and starts the loops. No decisions.
import { dirname, join, resolve } from "node:path";
import { NODES, PODS, type KubeNode, type Pod } from "@patchbay/api";
import { layoutOf } from "@patchbay/containerd";
import { messageOf } from "@patchbay/core";
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
  createPauses,
  createQueue,
  runReconciler,
  type LostWriteTeller,
  waitForCaches,
  type Queue,
} from "@patchbay/kube";
import { createClaimDisk, createFiles, createProcessRunner } from "@patchbay/os";
import type { Cache, ContainerRuntime, ExecPrograms, Files } from "@patchbay/core/ports";
import { architecture, type Flags } from "./config.ts";
import { controlNode } from "./compose/control.ts";
import { listenToApiServer } from "./compose/kubelet-api.ts";
import { composeBridgeRecorder } from "./compose/created-bridges.ts";
import { limitPods } from "./compose/pod-share.ts";
import { imageMemoryOf, type ImageMemory } from "./compose/image-memory.ts";
import { pullGuardOf } from "./compose/pull-guard.ts";
import { createSweeper, sweepAfterCuts, sweepOf } from "./compose/orphans.ts";
import {
  keepVolumes,
  PASS_MS,
  volumeDepsOf,
  volumesOf,
  type VolumeMachine,
} from "./compose/volumes.ts";
import { createImageAccess } from "./images/access.ts";
import { keepImages } from "./images/keep-images.ts";
import { keepLogs } from "./log-rotation/keep-logs.ts";
import { beat, keepNode, type NodeDeps } from "./node/keep-node.ts";
import { readIdentity, type MachineIdentity, type MachineSources } from "./node/machine.ts";
import { BY_UID, type PodDeps } from "./pods/deps.ts";
import { reconcilePod } from "./pods/index.ts";
import { isRelevant } from "./pods/relevance.ts";
import type { VolumeDeps } from "./volumes/index.ts";
import { createOwners } from "./pods/work/owners.ts";
import { createPulls } from "./pods/work/pulls.ts";
import { createStops } from "./pods/work/stops.ts";
import { createAdmission } from "./schedule/admission.ts";
import { createProbes } from "./probes/probes.ts";
import { podUidOf } from "./translate/labels.ts";
import type { NodeFacts } from "./translate/node-facts.ts";

/** How many pods are worked on at once. */
const CONCURRENCY = 8;
/** How soon a runtime that does not answer is asked again, milliseconds. */
const ASK_AGAIN_MS = 500;

/** The machine. */
interface Machine extends VolumeMachine {
  readonly runtime: ContainerRuntime;
  readonly programs: ExecPrograms;
  readonly runtimeName: string;
  readonly identity: MachineIdentity;
  readonly memory: ImageMemory;
}

function uidOf(pod: Pod): string {
  return pod.metadata.uid ?? "";
}

/** Which runtime it is, once it answers: whoever starts both may have started it later. */
async function waitForRuntime(
  runtime: ContainerRuntime,
  { clock, log, signal }: DaemonContext,
): Promise<{ readonly name: string; readonly version: string }> {
  for (;;) {
    try {
      return await runtime.version();
    } catch (error) {
      log.warn("the container runtime does not answer", { reason: messageOf(error) });
      await clock.sleep(ASK_AGAIN_MS, signal);
    }
  }
}

function parseAddress(address: string | undefined): Pick<NodeFacts, "apiServer"> {
  const [host = "", port = ""] = address?.split(/:(?=\d+$)/) ?? [];
  return host === "" || port === "" ? {} : { apiServer: { host, port } };
}

function endpointsOf({ criEndpoint }: Flags): readonly string[] {
  return criEndpoint ?? DEFAULT_CRI_ENDPOINTS;
}

/** Its tool speaks to the socket that CRI is spoken at. */
function containerdOf(flags: Flags): Pick<Machine, "containerd"> {
  const { containerdDir, cniConfDir } = flags;
  const socket = endpointsOf(flags)[0]?.replace(/^unix:\/\//, "");
  if (containerdDir === undefined || socket === undefined) return {};
  const directory = resolve(containerdDir);
  const places = { directory, runDirectory: dirname(socket), cniConfDirectory: cniConfDir };
  return { containerd: layoutOf(places) };
}

function claimMachineOf(
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

/** Who answers pods for names. */
function dnsFactsOf({ clusterDns: server, clusterDomain: domain }: Flags): Pick<NodeFacts, "dns"> {
  return server === undefined ? {} : { dns: { server, domain } };
}

async function findMachine(context: DaemonContext, flags: Flags): Promise<Machine> {
  const files = createFiles();
  const runner = createProcessRunner();
  const place = { endpoints: endpointsOf(flags), clock: context.clock };
  const runtime = createContainerRuntime(place);
  const programs = createExecPrograms(place);
  context.signal.addEventListener("abort", () => {
    runtime.close();
    programs.close();
  });
  const { name, version } = await waitForRuntime(runtime, context);
  const told = { architecture: architecture(), runtimeVersion: `${name}://${version}` };
  const identity = await readIdentity({ files, runner }, told);
  const facts: NodeFacts = {
    name: flags.nodeName,
    hostIp: identity.hostIp,
    podsDir: resolve(flags.podsDir),
    logDir: resolve(flags.logDir),
    cgroupParent: flags.cgroupParent,
    memoryBytes: await readMemory(files),
    ...dnsFactsOf(flags),
    ...parseAddress(flags.podApiServer),
  };
  const claims = claimMachineOf({ files, runner }, flags);
  await files.ensureDirectory(facts.podsDir);
  await files.ensureDirectory(facts.logDir, 0o700);
  const stateDir = resolve(flags.stateDir);
  await files.ensureDirectory(stateDir, 0o700);
  const { dataplaneGroup } = flags;
  const own = { files, runner, dataplaneGroup, ...containerdOf(flags) };
  const memory = imageMemoryOf(own, join(stateDir, "image-grants"), context.log);
  return { ...own, runtime, programs, runtimeName: name, identity, facts, memory, ...claims };
}

function startNodes({ client, log, signal }: DaemonContext, nodeName: string): Cache<KubeNode> {
  const itself = client.reflect(NODES, { fieldSelector: `metadata.name=${nodeName}` });
  const nodes = createCache(itself, { logger: log });
  nodes.start(signal);
  return nodes;
}

function startPods({ client, log, signal }: DaemonContext, nodeName: string): Cache<Pod> {
  const pods = createCache(client.reflect(PODS, { fieldSelector: `spec.nodeName=${nodeName}` }), {
    indexes: { [BY_UID]: (pod) => [uidOf(pod)] },
    logger: log,
  });
  pods.start(signal);
  return pods;
}

function sourcesOf({ files, runtime, facts }: Machine, { cniConfDir }: Flags): MachineSources {
  return { files, runtime, podsDir: facts.podsDir, cniConfDir: resolve(cniConfDir) };
}

/** The node, registered and with a lease. */
async function startNode(
  { client, clock, log, signal }: DaemonContext,
  machine: Machine,
  at: { readonly flags: Flags; readonly port: number; readonly nodes: Cache<KubeNode> },
): Promise<NodeDeps> {
  const { nodeName } = at.flags;
  const { identity } = machine;
  const node: NodeDeps = {
    store: client.store,
    clock,
    log,
    nodeName,
    identity,
    port: at.port,
    ...sourcesOf(machine, at.flags),
  };
  await waitForCaches([at.nodes], signal);
  if (!signal.aborted) await beat(node, at.nodes.find({ name: nodeName }));
  return node;
}

/** Wakes every pod that is there and every one that has left something behind. */
async function wakeAll(deps: PodDeps, queue: Queue): Promise<void> {
  const left = await deps.files.list(deps.node.podsDir);
  const sandboxes = await deps.runtime.listSandboxes();
  const uids = sandboxes.flatMap(({ labels }) => podUidOf(labels) ?? []);
  for (const uid of [...left, ...uids, ...deps.pods.list().map(uidOf)]) queue.add(uid);
}

/** What the runtime tells wakes the pod that it is about. */
function followRuntime(deps: PodDeps, queue: Queue, signal: AbortSignal): void {
  const wake = async (id: string | undefined): Promise<void> => {
    const uid = id === undefined ? undefined : await deps.owners.find(id);
    if (uid !== undefined) queue.add(uid);
    else if (id === undefined) await wakeAll(deps, queue);
  };
  deps.runtime.watch((id) => {
    wake(id).catch((error: unknown) => {
      // It will tell when it is back.
      deps.log.warn("the container runtime is not running", { reason: messageOf(error) });
    });
  }, signal);
}

function composePods(
  context: DaemonContext,
  machine: Machine,
  at: {
    readonly queue: Queue;
    readonly volumes: VolumeDeps;
    readonly nodes: Cache<KubeNode>;
    readonly observeNetworks: PodDeps["observeNetworks"];
  },
): PodDeps {
  const { queue, volumes, nodes, observeNetworks } = at;
  const { client, clock, log, signal } = context;
  const { files, runtime, runtimeName, facts, memory } = machine;
  const wake = (uid: string, afterMs = 0): void => {
    if (afterMs > 0) queue.addAfter(uid, afterMs);
    else queue.add(uid);
  };
  const { store } = client;
  const pods = startPods(context, facts.name);
  const component = { component: "node-runtime", host: facts.name };
  const recorder = createEventRecorder({ store, clock, logger: log, ...component });
  return {
    store,
    runtime,
    runtimeName,
    files,
    clock,
    log,
    node: facts,
    pods,
    recorder,
    admission: createAdmission({ pods, findNode: () => nodes.find({ name: facts.name }) }),
    volumes: volumesOf(volumes),
    disk: volumes.disk,
    probes: createProbes({ runtime, clock, log, recorder, hostIp: facts.hostIp, wake }, signal),
    pauses: createPauses({ clock }),
    owners: createOwners(runtime),
    pulls: createPulls({
      runtime,
      clock,
      log,
      wake,
      guard: pullGuardOf(context, machine),
      access: createImageAccess(memory),
    }),
    stops: createStops({ runtime, clock, log, wake }),
    sweeper: createSweeper({ sweep: sweepOf(machine, log), clock, log }, signal),
    released: new Set(),
    observeNetworks,
  };
}

/** Runs the loops until the signal is aborted; pods go on running. */
export async function runNode(context: DaemonContext, flags: Flags): Promise<void> {
  const { clock, health, log, metrics, signal } = context;
  const machine = await findMachine(context, flags);
  await limitPods(sourcesOf(machine, flags), flags.cgroupParent, log);
  health.addCheck(() => findProblem({ runtime: machine.runtime, clock }));
  const queue = createQueue({ clock, concurrency: CONCURRENCY });
  const volumes = volumeDepsOf(context, machine);
  const nodes = startNodes(context, flags.nodeName);
  const observeNetworks = await composeBridgeRecorder({ ...machine, log }, flags);
  const deps = composePods(context, machine, { queue, volumes, nodes, observeNetworks });
  const { programs, facts } = machine;
  const serving = { ...deps, programs, signal, hostIp: facts.hostIp };
  const port = await listenToApiServer(serving, flags);
  const node = await startNode(context, machine, { flags, port, nodes });
  await waitForCaches([deps.pods], signal);
  if (signal.aborted) return;
  deps.pods.onChange((change) => {
    if (!isRelevant(change)) return;
    queue.add(uidOf(change.kind === "deleted" ? change.previous : change.current));
  });
  followRuntime(deps, queue, signal);
  sweepAfterCuts(deps.runtime, deps.sweeper, signal);
  keepLogs({ runtime: deps.runtime, files: deps.files, clock, log }, signal);
  await wakeAll(deps, queue);
  context.ready();
  const reconcile = (uid: string): ReturnType<typeof reconcilePod> => reconcilePod(uid, deps);
  const watch = health.watchLoop("pod", PASS_MS);
  const lostWrites: LostWriteTeller = {
    events: deps.recorder,
    find: (_resource, key) => deps.pods.find(key),
  };
  const pods = { name: "pod", queue, reconcile, log, clock, metrics, watch, lostWrites };
  await Promise.all([
    runReconciler(pods, signal),
    keepNode({ ...node, watch: health.watchLoop("node") }, nodes, signal),
    keepVolumes(context, volumes, { ...machine, pods: deps.pods }),
    keepImages({ ...deps, ...machine.memory, podsDir: deps.node.podsDir }, signal),
    controlNode(context, machine, flags),
  ]);
}
