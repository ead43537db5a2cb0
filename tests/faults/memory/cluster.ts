// SPDX-License-Identifier: Apache-2.0
// A cluster of one node in one process, in time that stands still: what is to happen happens, and then all is silent.
import {
  NETWORK_ATTACHMENT_DEFINITIONS,
  PODS,
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type KubeObject,
  type ResourceType,
  type VirtualMachine,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { noteCalls } from "@patchbay/kube/testing";
import { createFakeClock } from "@patchbay/os/testing";
import { createSilentLogger } from "@patchbay/telemetry";
import { Fate, Life } from "../life.ts";
import { MemoryApiServer } from "./api-server.ts";
import { Kubelet } from "./kubelet.ts";
import type { TestNode } from "./node.ts";
import { PROGRAMS, type Program } from "./processes.ts";

/** A process that died is started again after so long, milliseconds. */
const RESTART_MS = 200;
/** What is due later than this is no work that is left: loops look again now and then. Milliseconds. */
const SOON_MS = 120_000;
/** Steps of the clock after which a cluster that goes on for ever is given up. */
const STEPS_MAX = 2_000;
/** Kinds whose objects are looked at. */
const KINDS: readonly ResourceType<KubeObject>[] = [
  VIRTUAL_MACHINES,
  VIRTUAL_MACHINE_INSTANCES,
  PODS,
];
/** Members that tell when something was, how often it was tried, and which steps somebody saw who lived. */
const TRANSIENT =
  /^(?:resourceVersion|uid|generation|observedGeneration|lastTransitionTime|.*Timestamps?|lastProbeTime|since|phases|attempts)$/;

/** The VM of all stories. */
const VM = { namespace: "default", name: "vm1" };

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
 * Histories of NICs: that of a VMI by names, since what a death holds up ends later; a VM's copy is behind until something is
 * told of the VM, or the guest has ended.
 */
function comparable(item: KubeObject): unknown {
  if (item.kind !== VIRTUAL_MACHINES.kind && item.kind !== VIRTUAL_MACHINE_INSTANCES.kind) {
    return item;
  }
  const { status } = item as VirtualMachine | VirtualMachineInstance; // as its kind says
  const history = (status?.interfaceHistory ?? []).toSorted(byName);
  const interfaceHistory = item.kind === VIRTUAL_MACHINES.kind ? "behind" : history;
  return { ...item, status: { ...status, interfaceHistory } };
}

/** The cluster; made by {@link createCluster}. */
export class Cluster {
  readonly fate = new Fate();
  readonly #api = new MemoryApiServer();
  readonly #clock = createFakeClock();
  readonly #node: TestNode;
  readonly #kubelet: Kubelet;
  readonly #lives = new Map<string, { readonly life: Life; readonly stop: AbortController }>();
  readonly #ended = new AbortController();

  constructor(node: TestNode) {
    this.#node = node;
    const client = this.#api.clientWith(this.#api.store);
    const sleep = (ms: number): Promise<void> => this.#clock.sleep(ms, this.#ended.signal);
    this.#kubelet = new Kubelet(client, node, sleep);
    this.#kubelet.start();
    for (const [name, program] of Object.entries(PROGRAMS)) this.#start(name, program);
  }

  /** Requests of the processes so far, each as `PROCESS VERB RESOURCE`; watches are not counted. */
  readonly requests: string[] = [];

  /** Names of the processes that died. */
  readonly deaths: string[] = [];

  async putNetworks(...networks: readonly string[]): Promise<void> {
    for (const name of networks) {
      const { kind } = NETWORK_ATTACHMENT_DEFINITIONS;
      const config = JSON.stringify(this.#node.networkConfig(name));
      await this.#api.store.create(NETWORK_ATTACHMENT_DEFINITIONS, {
        ...{ apiVersion: "k8s.cni.cncf.io/v1", kind },
        ...{ metadata: { namespace: "default", name }, spec: { config } },
      });
    }
  }

  async createVm(vm: VirtualMachine): Promise<void> {
    await this.#api.store.create(VIRTUAL_MACHINES, vm);
  }

  async editVm(change: (vm: VirtualMachine) => VirtualMachine): Promise<void> {
    const vm = await this.#api.store.find(VIRTUAL_MACHINES, VM);
    if (vm !== undefined) await this.#api.store.update(VIRTUAL_MACHINES, change(vm));
  }

  async deleteVm(): Promise<void> {
    await this.#api.store.delete(VIRTUAL_MACHINES, VM);
  }

  /** Lets everything happen that is to happen soon. */
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

  /** All objects and all that is on the node. */
  async inventory(): Promise<unknown> {
    const objects = await Promise.all(KINDS.map((type) => this.#api.store.list(type)));
    const uids = objects.flatMap(({ items }) => items.map(({ metadata }) => metadata.uid ?? ""));
    const all = {
      objects: objects.map(({ items }) => items.map(comparable)),
      node: await this.#node.inventory(),
    };
    // Uids differ from run to run, wherever they are named, and so do addresses out of a range.
    const text = uids.reduce(
      (words, uid, index) => words.replaceAll(uid, `UID-${String(index)}`),
      JSON.stringify(withoutTransient(all)),
    );
    return JSON.parse(text.replaceAll(/\b10(?:\.\d+){3}\b/g, "ADDRESS"));
  }

  async close(): Promise<void> {
    for (const { stop } of this.#lives.values()) stop.abort(new Error("the test ends"));
    this.#ended.abort(new Error("the test ends"));
    await this.#node.close();
  }

  #start(name: string, program: Program): void {
    const stop = new AbortController();
    const life = new Life(name, this.fate, () => {
      this.deaths.push(name);
      stop.abort(new Error("dead"));
      void this.#clock.sleep(RESTART_MS, this.#ended.signal).then(
        () => {
          this.#start(name, program);
        },
        () => undefined, // the test ended
      );
    });
    this.#lives.set(name, { life, stop });
    const store = noteCalls(life.bind(this.#api.store), (call) => {
      this.requests.push(`${name} ${call}`);
    });
    void program({
      client: this.#api.clientWith(store),
      ground: this.#node.groundFor(life),
      clock: this.#clock,
      log: createSilentLogger(),
      signal: stop.signal,
    });
  }

  /** Until nobody waits for an answer. */
  async #rest(): Promise<void> {
    for (let quiet = 0; quiet < 3; quiet += 1) {
      await new Promise(setImmediate);
      const lives = [...this.#lives.values()].map(({ life }) => life);
      const busy = [...lives, this.#kubelet].filter(({ pending }) => !pending.isNone);
      await Promise.all(busy.map(({ pending }) => pending.none()));
      if (busy.length > 0) quiet = -1;
    }
  }
}
