// SPDX-License-Identifier: Apache-2.0
// An in-memory node for the loop's tests. Its API server, kernel, CNI and disk outlive the agent, which can die at any call.
import {
  names,
  NETWORK_ATTACHMENT_DEFINITIONS,
  PODS,
  VIRTUAL_MACHINE_INSTANCES,
  type NetworkAttachmentDefinition,
} from "@patchbay/api";
import {
  parseNetworkStatus,
  parseAttachmentErrors,
  type NetworkStatus,
} from "@patchbay/api/annotations";
import type { Pod } from "@patchbay/api/kubernetes";
import { createJournal, type Journal } from "@patchbay/cni";
import type { Note } from "@patchbay/kube";
import { AppError, KeyedMutex, type Clock, type LogFields } from "@patchbay/base";
import {
  DEFAULT_POLICY,
  type AgentMode,
  type NodeSubnet,
  type TenantPolicy,
} from "@patchbay/core/nics";

import type {
  AttachmentRequest,
  Cni,
  CniResult,
  OpenNetns,
  Sandbox,
} from "@patchbay/core/interfaces";
import { createFakeCni, type FakeCni } from "@patchbay/cni/testing";
import { createFakeSandboxes, type FakeSandboxes } from "@patchbay/cri/testing";
import { createFakePodDevices, type FakePodDevices } from "@patchbay/device-plugin/testing";
import { createFakeCache, createFakeStore, type FakeStore } from "@patchbay/kube/testing";
import { createFakeFiles, createFakeNamespaces, type FakeFiles } from "@patchbay/os/testing";
import {
  createFakeDefaultRoutes,
  createFakeNodeNics,
  createFakePodNetwork,
  type FakeDefaultRoutes,
  type FakeNodeNics,
  type FakePodNetwork,
} from "@patchbay/podnet/testing";
import { createSilentLogger } from "@patchbay/telemetry";
import type { Deps } from "../deps.ts";
import { createFailures } from "../failures.ts";
import { createUpkeep } from "../reconcilers/upkeep/upkeep.ts";
import { reconcilePod } from "../reconcilers/pod/index.ts";
import { loadTrackedPods, type TrackedPods } from "../tracked-pods.ts";
import { sweepLeftovers } from "../reconcilers/leftovers.ts";
import {
  Life,
  crashingJournal,
  crashingNics,
  crashingPodNetwork,
  crashingRoutes,
  crashingStore,
} from "./life.ts";
import { nodeFiles } from "./node-files.ts";
import { NAMES, OWNER, toPod, type PodOptions } from "./pod-options.ts";

export const HOST_INODE = "inode-host";
const HOST_NETNS = "/proc/self/ns/net";
export const POD_KEY = "ns1/pod";

/** Returns the inode of a sandbox's namespace. */
export function inodeOf(uid: string): string {
  return `inode-${uid}`;
}

export class World {
  readonly files: FakeFiles = createFakeFiles();
  readonly podNetwork: FakePodNetwork = createFakePodNetwork();
  readonly defaultRoutes: FakeDefaultRoutes = createFakeDefaultRoutes(
    (inode, link) => this.podNetwork.findLink(inode, link) !== undefined,
  );
  /** NICs that plugin host-device may move; the host's namespace is {@link HOST_INODE}. */
  readonly nodeNics: FakeNodeNics = createFakeNodeNics();
  readonly store: FakeStore = createFakeStore();
  readonly notes: Note[] = [];
  readonly #namespaces = createFakeNamespaces();
  readonly sandboxes: FakeSandboxes = createFakeSandboxes();
  readonly podDevices: FakePodDevices = createFakePodDevices();
  /** Whether the sandboxes' network namespaces are invisible to the agent. */
  hidesSandboxes = false;
  /** Error that the container runtime returns; undefined if it works. */
  runtimeError: Error | undefined;
  readonly #pods = createFakeCache<Pod>();
  readonly #nads = createFakeCache<NetworkAttachmentDefinition>();
  readonly cni: FakeCni = createFakeCni({
    attached: (request, result) => {
      const mac = result.interfaces?.[0]?.mac ?? "";
      const link = { name: request.interfaceName, kind: "veth", mac, mtu: 1500, up: true };
      this.podNetwork.putLink(this.#inodeAt(request.netnsPath), link);
      this.#moveNodeNic(request, "in");
    },
    detached: (request) => {
      const inode = this.#inodeAt(request.netnsPath);
      this.#moveNodeNic(request, "out");
      this.podNetwork.takeLink(inode, request.interfaceName);
      this.defaultRoutes.takeLink(inode, request.interfaceName);
    },
  });
  isIsolated = true;
  mode: AgentMode = "multus";
  enforcesPolicy = true;
  /** Tenant policy. The definitions belong to administrators by default. */
  policy: TenantPolicy = { ...DEFAULT_POLICY, trustedNamespaces: ["ns1", "default", "other"] };
  /** Problems that `findProblems` returns for every network. */
  problems: readonly AppError[] = [];
  /** Bridges of the host with hardware as a port. */
  ownBridges: readonly string[] = [];
  nodeSubnets: readonly NodeSubnet[] = [];
  listeningPorts: ReadonlySet<number> | undefined = new Set();
  readDefaultNetwork: Deps["readDefaultNetwork"];
  /** Function that changes the result of an ADD. */
  resultOf: (result: CniResult) => CniResult | Promise<CniResult> = (result) => result;
  /** Requests of ADD and DEL, in order. */
  readonly requests: { readonly request: AttachmentRequest; readonly prevResult?: CniResult }[] =
    [];
  readonly lines: { readonly message: string; readonly fields: LogFields }[] = [];
  beforeEachWrite: () => void = () => undefined;
  /** Whether the API server has KubeVirt's kinds; otherwise it returns `storeError`. */
  hasKubeVirt = true;
  storeError = new AppError("KUBE_NOT_FOUND", { resource: "virtualmachineinstances" });
  bootId = "boot-1";
  nowMs = 0;
  readonly #clock: Clock = {
    now: () => this.nowMs,
    monotonicMs: () => this.nowMs,
    sleep: () => Promise.resolve(),
  };
  #failures = createFailures(this.#clock);
  readonly #podMutex = new KeyedMutex();
  /** Pods that the agent's process tracks; undefined before the process starts. */
  #tracked: TrackedPods | undefined;
  /** Number of calls of all agents that changed something outside their process. */
  effects = 0;
  #upkeep: (() => Promise<void>) | undefined;
  /** Error codes of the steps that failed in the last pass. */
  #failed: string[] = [];

  /** Returns the reason of the last failed ADD. */
  lastAddReason(interfaceName: string, uid = "uid-1"): string | undefined {
    const step = { scope: uid, name: `add ${interfaceName}`, inputs: "" };
    return this.#failures.lastReport(step)?.reason;
  }

  /** Returns the number of namespaces that were opened and not closed. */
  get openNamespaces(): number {
    return this.#namespaces.openCount;
  }

  get journal(): Journal {
    return createJournal(this.files, "/state/journal");
  }

  /** Stores the pod, and creates its sandbox unless it is pending. */
  async putPod(options: PodOptions): Promise<void> {
    const { uid = "uid-1", phase = "Running" } = options;
    const existing = this.#pods.find(NAMES);
    const before = existing?.metadata.uid === uid ? existing.metadata.annotations : undefined;
    this.store.put(PODS, toPod(options, before));
    if (phase !== "Pending") this.putSandbox(uid, `box-${uid}`);
    await this.sync();
  }

  /** Creates a sandbox that replaces the previous one, like the runtime. */
  putSandbox(podUid: string, id: string): void {
    const netnsPath = `/run/netns/${id}`;
    const netnsInode = inodeOf(id === `box-${podUid}` ? podUid : id);
    this.#namespaces.put(netnsPath, netnsInode);
    this.sandboxes.put({ id, podUid, pod: NAMES, netnsPath, netnsInode });
  }

  /** Mounts another namespace at the path of a sandbox. */
  swapNamespace(id: string, inode: string): void {
    this.#namespaces.put(`/run/netns/${id}`, inode);
  }

  dropNamespace(id: string): void {
    this.#namespaces.take(`/run/netns/${id}`);
  }

  async deletePod(): Promise<void> {
    await this.store.delete(PODS, NAMES);
    await this.sync();
  }

  /** Stores the VMI `vm1` with these networks. */
  putVmi(uid: string, ...networks: readonly string[]): void {
    this.store.put(VIRTUAL_MACHINE_INSTANCES, {
      apiVersion: OWNER.apiVersion,
      kind: OWNER.kind,
      metadata: { namespace: NAMES.namespace, name: OWNER.name, uid },
      spec: {
        domain: {},
        networks: networks.map((networkName) => ({ name: networkName, multus: { networkName } })),
      },
    });
  }

  /** Stores definitions with one plugin in namespace ns1; names may be NAMESPACE/NAME. */
  putNads(...nads: readonly string[]): void {
    for (const nad of nads) {
      const [name = "", namespace = "ns1"] = nad.split("/").toReversed();
      this.putNad({ namespace, name }, { cniVersion: "1.0.0", type: "bridge" });
    }
  }

  putNad(
    key: { readonly namespace: string; readonly name: string },
    config: unknown,
    annotations: Readonly<Record<string, string>> = {},
  ): void {
    this.#nads.put({
      apiVersion: "k8s.cni.cncf.io/v1",
      kind: NETWORK_ATTACHMENT_DEFINITIONS.kind,
      metadata: { ...key, annotations },
      spec: { config: JSON.stringify(config) },
    });
  }

  /** Stores a definition without configuration in namespace ns1. */
  putEmptyNad(name: string): void {
    const { kind } = NETWORK_ATTACHMENT_DEFINITIONS;
    this.#nads.put({
      apiVersion: "k8s.cni.cncf.io/v1",
      kind,
      metadata: { namespace: "ns1", name },
    });
  }

  dropNad(key: string): void {
    const [name = "", namespace = ""] = key.split("/").toReversed();
    this.#nads.take({ namespace, name });
  }

  /** Updates the caches from the API server. */
  async sync(): Promise<void> {
    for (const { metadata } of this.#pods.list()) this.#pods.take(metadata);
    for (const pod of (await this.store.list(PODS)).items) {
      this.#pods.put(pod);
    }
  }

  /** Runs one pass in a new agent process, and returns its error. The agent dies before call number `dieAt`. */
  async pass(dieAt = Number.POSITIVE_INFINITY): Promise<unknown> {
    this.#failures = createFailures(this.#clock);
    this.#tracked = undefined;
    this.#upkeep = undefined;
    return this.continuePass(dieAt);
  }

  async continuePass(dieAt = Number.POSITIVE_INFINITY): Promise<unknown> {
    const life = new Life(dieAt);
    this.#failed = [];
    try {
      await reconcilePod(POD_KEY, await this.deps(life));
      const [code] = this.#failed;
      return code === undefined ? undefined : { code };
    } catch (error) {
      return error;
    } finally {
      this.effects += life.calls;
      await this.sync();
    }
  }

  /** Runs a pass. Returns the milliseconds until the next one; undefined if the agent waits for a change. */
  async nextMs(): Promise<number | undefined> {
    const next = await reconcilePod(POD_KEY, await this.deps(new Life(Number.POSITIVE_INFINITY)));
    return next.kind === "after" ? next.ms : undefined;
  }

  /** Runs a pass in a new agent. Returns whether it reaches call number `dieAt`, where it dies. */
  async diesAt(dieAt: number): Promise<boolean> {
    const life = new Life(dieAt);
    this.#tracked = undefined;
    await reconcilePod(POD_KEY, await this.deps(life)).catch(() => undefined); // dead or failed: returned below
    await this.sync();
    return life.isDead;
  }

  async networkStatus(): Promise<readonly NetworkStatus[]> {
    return parseNetworkStatus(await this.annotation(names.NETWORK_STATUS_ANNOTATION));
  }

  /** Returns the reasons in `patchbay.io/attachment-errors` by interface. */
  async errorReasons(): Promise<Readonly<Record<string, string>>> {
    const text = await this.annotation(names.ATTACHMENT_ERRORS_ANNOTATION);
    const errors = Object.entries(parseAttachmentErrors(text));
    return Object.fromEntries(errors.map(([key, error]) => [key, error.reason]));
  }

  async annotation(name: string): Promise<string | undefined> {
    return (await this.store.find(PODS, NAMES))?.metadata.annotations?.[name];
  }

  /** Moves the NIC of plugin host-device, which restores only the name. */
  #moveNodeNic(
    { config, interfaceName, netnsPath }: AttachmentRequest,
    direction: "in" | "out",
  ): void {
    const device = config.plugins.find(({ type }) => type === "host-device")?.["device"];
    if (typeof device !== "string") return;
    const pod = { inode: this.#inodeAt(netnsPath), name: interfaceName };
    if (direction === "out") this.nodeNics.move(pod, HOST_INODE, { name: device });
    else {
      const changes = { name: interfaceName, alias: device };
      this.nodeNics.move({ inode: HOST_INODE, name: device }, pod.inode, changes);
    }
  }

  #inodeAt(netnsPath = ""): string {
    const netns = this.#namespaces.open(netnsPath);
    netns?.close();
    return netns?.inode ?? "";
  }

  #findSandbox(uid: string): Promise<Sandbox | undefined> {
    const { runtimeError } = this;
    if (this.hidesSandboxes) return Promise.resolve(undefined);
    return runtimeError === undefined ? this.sandboxes.find(uid) : Promise.reject(runtimeError);
  }

  /** Releases attachments that Multus left behind. */
  async sweep(uid?: string): Promise<void> {
    await sweepLeftovers(await this.deps(new Life(Number.POSITIVE_INFINITY)), uid);
  }

  /** Runs one upkeep round. A new process has reported nothing yet. */
  async upkeep(): Promise<void> {
    this.#upkeep ??= createUpkeep(await this.deps(new Life(Number.POSITIVE_INFINITY)));
    await this.#upkeep();
  }

  #openHost(): OpenNetns {
    this.#namespaces.put(HOST_NETNS, HOST_INODE);
    const netns = this.#namespaces.open(HOST_NETNS);
    if (netns === undefined) throw new Error("there is no host");
    return netns;
  }

  async deps(life: Life): Promise<Deps> {
    const journal = this.journal;
    return {
      store: crashingStore(this.store, life, this),
      pods: this.#pods,
      nads: this.#nads,
      sandboxes: {
        find: (uid) => this.#findSandbox(uid),
        isReady: (id) => this.sandboxes.isReady(id),
      },
      podDevices: this.podDevices,
      ...nodeFiles(this.files),
      ...(this.readDefaultNetwork && { readDefaultNetwork: this.readDefaultNetwork }),
      namespaces: this.#namespaces,
      podNetwork: crashingPodNetwork(this.podNetwork, life),
      defaultRoutes: crashingRoutes(this.defaultRoutes, life),
      nodeNics: crashingNics(this.nodeNics, life),
      openHostNetns: () => this.#openHost(),
      cni: this.#crashingCni(life),
      journal: crashingJournal(journal, life),
      trackedPods: (this.#tracked ??= await loadTrackedPods(journal, createSilentLogger())),
      events: {
        record: (_object, note) => this.notes.push(note),
        flush: () => Promise.resolve(),
      },
      failures: this.#failures,
      podMutex: this.#podMutex,
      clock: this.#clock,
      log: {
        ...createSilentLogger(),
        info: (message, fields = {}) => this.lines.push({ message, fields }),
        warn: (_message, fields) => {
          if (fields?.["step"] !== undefined) this.#failed.push(String(fields["code"]));
        },
      },
      bootId: this.bootId,
      hostNetnsInode: HOST_INODE,
      isIsolated: this.isIsolated,
      mode: this.mode,
      findProblems: () => Promise.resolve(this.problems),
      policy: {
        isEnforced: this.enforcesPolicy,
        describeSetting: () => "",
        current: () => this.policy,
        onChange: () => undefined,
      },
      listOwnBridges: () => Promise.resolve(new Set(this.ownBridges)),
      listNodeSubnets: () => Promise.resolve(this.nodeSubnets),
      listListeningPorts: () => Promise.resolve(this.listeningPorts),
    };
  }

  #crashingCni(life: Life): Cni {
    return {
      add: (request) => {
        this.requests.push({ request });
        return life.call(async () => this.resultOf(await this.cni.add(request)));
      },
      del: (request, prevResult) => {
        this.requests.push({ request, ...(prevResult === undefined ? {} : { prevResult }) });
        return life.call(() => this.cni.del(request, prevResult));
      },
      check: (request, prevResult) => this.cni.check(request, prevResult),
      status: (config) => this.cni.status(config),
      gc: (config, listValid) => this.cni.gc(config, listValid),
      releaseAddresses: (request) => life.call(() => this.cni.releaseAddresses(request)),
    };
  }
}
