// SPDX-License-Identifier: Apache-2.0
// A cluster of one or two nodes in one process with a fake clock: runs until nothing remains to be done.
import {
  NETWORK_ATTACHMENT_DEFINITIONS,
  PODS,
  VIRTUAL_MACHINE_INSTANCE_MIGRATIONS,
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type ResourceType,
  type VirtualMachine,
  type VirtualMachineInstance,
} from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import type { Store } from "@patchbay/core/interfaces";
import type { KubeClient } from "@patchbay/kube";
import { noteCalls } from "@patchbay/kube/testing";
import { createFakeClock } from "@patchbay/os/testing";
import { createSilentLogger } from "@patchbay/telemetry";
import { Fate, Life } from "../life.ts";
import { MemoryApiServer } from "./api-server.ts";
import { Kubelet } from "./kubelet.ts";
import type { TestNode } from "./node.ts";
import { CLUSTER_PROGRAMS, NODE_PROGRAMS, type Program } from "./processes.ts";

/** Restart delay of a dead process, milliseconds. */
const RESTART_MS = 200;
/** Timers later than this are periodic observations, not remaining work. Milliseconds. */
const SOON_MS = 120_000;
/** Limit of clock steps for a cluster that never settles. */
const STEPS_MAX = 2_000;
/** Kinds of the compared objects. */
const KINDS: readonly ResourceType<KubeObject>[] = [
  VIRTUAL_MACHINES,
  VIRTUAL_MACHINE_INSTANCES,
  PODS,
];
/** Members that depend on time, retries, and deaths: timestamps, attempt counts, observed steps, and listen ports. */
const TRANSIENT =
  /^(?:resourceVersion|targetDirectMigrationNodePorts|migrationUid|uid|generation|observedGeneration|lastTransitionTime|.*Timestamps?|lastProbeTime|since|phases|attempts)$/;

/** Addresses from a range, and names derived from uids and migration counts. */
const NAMELESS: readonly (readonly [RegExp, string])[] = [
  [/\b10(?:\.\d+){3}\b/g, "ADDRESS"],
  [/\bvirt-launcher-vm1-[0-9a-f]{5}\b/g, "LAUNCHER"],
  [/"(?:uid-[a-z]+-\d+|UID-\d+|to-node\d-\d|asked)"/g, '"NAME"'],
];

/** The VM of all scenarios. */
const VM = { namespace: "default", name: "vm1" };

function noNode(): never {
  throw new Error("a cluster has a node");
}

function withoutTransient(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutTransient);
  if (typeof value !== "object" || value === null) return value;
  const members = Object.entries(value).filter(([name]) => !TRANSIENT.test(name));
  return Object.fromEntries(members.map(([name, member]) => [name, withoutTransient(member)]));
}

function byName(left: { readonly name: string }, right: { readonly name: string }): number {
  return left.name < right.name ? -1 : 1;
}

/**
 * NIC histories: a VMI's sorted by name, because deaths delay entries; a VM's copy lags until its next update or its
 * guest's end.
 */
function comparable(item: KubeObject): unknown {
  if (item.kind !== VIRTUAL_MACHINES.kind && item.kind !== VIRTUAL_MACHINE_INSTANCES.kind) {
    return item;
  }
  const { status } = item as VirtualMachine | VirtualMachineInstance;
  const history = (status?.interfaceHistory ?? []).toSorted(byName);
  const interfaceHistory = item.kind === VIRTUAL_MACHINES.kind ? "behind" : history;
  return { ...item, status: { ...status, interfaceHistory } };
}

/** Observes a process's requests: returns the client that it uses. */
export type Traffic = (process: string, client: KubeClient) => KubeClient;

/** The cluster; created by {@link createCluster}. */
export class Cluster {
  readonly fate = new Fate();
  readonly #api = new MemoryApiServer();
  readonly #clock = createFakeClock();
  readonly #nodes: readonly TestNode[];
  readonly #look: () => Promise<void>;
  readonly #kubelet: Kubelet;
  readonly #lives = new Map<string, { readonly life: Life; readonly stop: AbortController }>();
  readonly #programs: (readonly [name: string, program: Program, node: TestNode])[] = [];
  readonly #traffic: Traffic;
  /** The user's requests. */
  readonly #user: Store;
  readonly #ended = new AbortController();

  /** @param look - called repeatedly while anything happens: checks invariants */
  constructor(
    nodes: readonly TestNode[],
    look: () => Promise<void> = () => Promise.resolve(),
    traffic: Traffic = (_process, client) => client,
  ) {
    this.#nodes = nodes;
    this.#look = look;
    this.#traffic = traffic;
    this.#user = traffic("user", this.#api.clientWith(this.#api.store)).store;
    const client = traffic("kubelet", this.#api.clientWith(this.#api.store));
    const sleep = (ms: number): Promise<void> => this.#clock.sleep(ms, this.#ended.signal);
    this.#kubelet = new Kubelet(client, nodes, sleep);
    this.#kubelet.start();
    const [first = noNode()] = nodes;
    for (const [name, program] of Object.entries(CLUSTER_PROGRAMS)) {
      this.#programs.push([name, program, first]);
    }
    for (const node of nodes) {
      const where = node === first ? "" : ` on ${node.name}`;
      for (const [name, program] of Object.entries(NODE_PROGRAMS)) {
        this.#programs.push([`${name}${where}`, program, node]);
      }
    }
    this.startAll();
  }

  /** Starts every process, for example after {@link endAll}. */
  startAll(): void {
    this.fate.deadlyName = undefined;
    for (const program of this.#programs) this.#start(...program);
  }

  /** Ends every process at once, without a restart. */
  endAll(): void {
    for (const { life, stop } of this.#lives.values()) {
      life.end();
      stop.abort(new Error("ended"));
    }
  }

  /** Ends every process right after the next action of that name, as an upgrade at that moment does. */
  endAllAfter(action: string): void {
    this.fate.deadlyName = action;
  }

  /** The objects of one kind, unchanged. */
  async list<T extends KubeObject>(type: ResourceType<T>): Promise<readonly T[]> {
    return (await this.#api.store.list(type)).items;
  }

  /** Stores an object as it is. No process may run. */
  put<T extends KubeObject>(type: ResourceType<T>, object: T): void {
    this.#api.put(type, object);
  }

  /** Requests of the processes so far, each as `PROCESS VERB RESOURCE`, without watches. */
  readonly requests: string[] = [];

  /** Names of the dead processes. */
  readonly deaths: string[] = [];

  async putNetworks(...networks: readonly string[]): Promise<void> {
    for (const name of networks) {
      const { kind } = NETWORK_ATTACHMENT_DEFINITIONS;
      const config = JSON.stringify(this.#nodes[0]?.networkConfig(name));
      await this.#user.create(NETWORK_ATTACHMENT_DEFINITIONS, {
        apiVersion: "k8s.cni.cncf.io/v1",
        kind,
        metadata: { namespace: "default", name },
        spec: { config },
      });
    }
  }

  async createVm(vm: VirtualMachine): Promise<void> {
    await this.#user.create(VIRTUAL_MACHINES, vm);
  }

  async editVm(change: (vm: VirtualMachine) => VirtualMachine): Promise<void> {
    const vm = await this.#api.store.find(VIRTUAL_MACHINES, VM);
    if (vm !== undefined) await this.#user.update(VIRTUAL_MACHINES, change(vm));
  }

  /** Requests a migration of the VM's guest. */
  async askForMove(name: string): Promise<void> {
    const { kind } = VIRTUAL_MACHINE_INSTANCE_MIGRATIONS;
    await this.#user.create(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS, {
      apiVersion: "kubevirt.io/v1",
      kind,
      metadata: { ...VM, name },
      spec: { vmiName: VM.name },
    });
  }

  /** The node that runs the guest; undefined: none. */
  async nodeOfGuest(): Promise<string | undefined> {
    return (await this.#api.store.find(VIRTUAL_MACHINE_INSTANCES, VM))?.status?.nodeName;
  }

  async deleteVm(): Promise<void> {
    await this.#user.delete(VIRTUAL_MACHINES, VM);
  }

  /** Runs everything that is due soon. */
  async settle(): Promise<void> {
    for (let step = 0; step < STEPS_MAX; step += 1) {
      await this.#rest();
      const [dueMs = Infinity] = this.#clock.dueMs;
      const inMs = dueMs - this.#clock.monotonicMs();
      if (inMs > SOON_MS) return;
      await this.#clock.advance(Math.max(inMs, 0));
    }
    throw new Error(`the cluster is never silent: ${this.fate.actions.slice(-10).join(", ")}`);
  }

  /** All objects and node state. */
  async inventory(): Promise<unknown> {
    const objects = await Promise.all(KINDS.map((type) => this.#api.store.list(type)));
    const uids = objects.flatMap(({ items }) => items.map(({ metadata }) => metadata.uid ?? ""));
    const all = {
      objects: objects.map(({ items }) => items.map(comparable)),
      nodes: await Promise.all(this.#nodes.map((node) => node.inventory())),
    };
    // Uids and addresses from a range differ between runs and are replaced everywhere.
    const named = uids
      .map((uid, index) => ({ uid, name: `UID-${String(index)}` }))
      // One may be a prefix of another.
      .toSorted((a, b) => b.uid.length - a.uid.length);
    const text = named.reduce(
      (words, { uid, name }) => words.replaceAll(uid, name),
      JSON.stringify(withoutTransient(all)),
    );
    return JSON.parse(NAMELESS.reduce((words, [what, name]) => words.replaceAll(what, name), text));
  }

  async close(): Promise<void> {
    for (const { stop } of this.#lives.values()) stop.abort(new Error("the test ends"));
    this.#ended.abort(new Error("the test ends"));
    for (const node of this.#nodes) await node.close();
  }

  #start(name: string, program: Program, node: TestNode): void {
    const stop = new AbortController();
    const life = new Life(name, this.fate, () => {
      this.deaths.push(name);
      stop.abort(new Error("dead"));
      if (this.fate.deadlyName !== undefined) {
        this.endAll();
        return;
      }
      void this.#clock.sleep(RESTART_MS, this.#ended.signal).then(
        () => {
          this.#start(name, program, node);
        },
        () => undefined,
      );
    });
    this.#lives.set(name, { life, stop });
    const store = noteCalls(life.bind(this.#api.store), (call) => {
      this.requests.push(`${name} ${call}`);
    });
    void program({
      client: this.#traffic(name, this.#api.clientWith(store)),
      nodeName: node.name,
      ground: node.groundFor(life),
      clock: this.#clock,
      log: createSilentLogger(),
      signal: stop.signal,
    });
  }

  /** Waits until no call is pending. */
  async #rest(): Promise<void> {
    for (let quiet = 0; quiet < 3; quiet += 1) {
      await new Promise(setImmediate);
      const lives = [...this.#lives.values()].map(({ life }) => life);
      const busy = [...lives, this.#kubelet].filter(({ pending }) => !pending.isNone);
      await Promise.all(busy.map(({ pending }) => pending.none()));
      await this.#look();
      if (busy.length > 0) quiet = -1;
    }
  }
}
