// SPDX-License-Identifier: Apache-2.0
// What people do with many VMs: make them, plug a NIC into each, and take it out; and when each step of it was seen.
import { setTimeout as pass } from "node:timers/promises";
import {
  names,
  VIRTUAL_MACHINES,
  type KubeObject,
  type VirtualMachine,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { createCache, type KubeClient, type StartableCache } from "@patchbay/kube";
import type { Cache } from "@patchbay/core/interfaces";
import type { Logger } from "@patchbay/base";
import { vmManifest } from "@patchbay/support";
import { load, type Load } from "../apiserver/load.ts";
import { NAMESPACE } from "./install.ts";
import { vmOf, type NodeSide } from "./node-side.ts";

/** Requests of people that are under way at once. */
const PARALLEL = 32;
/** For which nothing changes when everything is done, milliseconds. */
const QUIET_MS = 1500;
/** The longest that anything may take, milliseconds. */
const LONGEST_MS = 15 * 60_000;
const HOT = "hot";

/** Of one plug, milliseconds since its PUT was sent. */
export interface PlugTimes {
  readonly answered: number;
  readonly annotated: number;
  /** VMI attachment `Attached`; in it is the simulated node's write of `network-status`. */
  readonly attached: number;
}

/** Of a plug of many, milliseconds. */
export interface BurstTimes {
  readonly put: Load;
  /** From the first PUT until the last VMI says that its NIC is there, or gone. */
  readonly totalMs: number;
}

/** Calls back with each change of a cache that is not a deletion, until something is true of one. */
function when<T extends KubeObject>(
  cache: Cache<T>,
  isSo: (object: T) => boolean,
): Promise<number> {
  const { promise, resolve } = Promise.withResolvers<number>();
  const stop = cache.onChange((change) => {
    if (change.kind === "deleted" || !isSo(change.current)) return;
    stop();
    resolve(performance.now());
  });
  return promise;
}

/** Keeps the names of the objects of which something is true. */
function keepNames<T extends KubeObject>(
  cache: Cache<T>,
  retained: Set<string>,
  isSo: (object: T) => boolean,
): void {
  cache.onChange((change) => {
    if (change.kind !== "deleted" && isSo(change.current))
      retained.add(change.current.metadata.name);
    else
      retained.delete((change.kind === "deleted" ? change.previous : change.current).metadata.name);
  });
}

function hasHot(vmi: VirtualMachineInstance): boolean {
  const entry = vmi.status?.interfaces?.find(({ name }) => name === HOT);
  return entry?.hotplug?.phase === "Ready";
}

function isRidOfHot(vm: VirtualMachine): boolean {
  const { networks = [] } = vm.spec.template.spec;
  return networks.every(({ name }) => name !== HOT);
}

/** VMs `vm-0` and on. */
export class Vms {
  readonly #client: KubeClient;
  readonly #node: NodeSide;
  readonly #vms: StartableCache<VirtualMachine>;
  /** Names of VMs that run, of those that name the hot NIC, and of VMIs that have it: nobody counts 10,000 each time. */
  readonly #running = new Set<string>();
  readonly #asking = new Set<string>();
  readonly #having = new Set<string>();
  #lastChangeMs = 0;

  constructor(client: KubeClient, node: NodeSide, logger: Logger) {
    this.#client = client;
    this.#node = node;
    const selection = { namespace: NAMESPACE };
    this.#vms = createCache(client.reflect(VIRTUAL_MACHINES, selection), { logger });
  }

  async start(signal: AbortSignal): Promise<void> {
    keepNames(this.#vms, this.#running, ({ status }) => status?.ready === true);
    keepNames(this.#vms, this.#asking, (vm) => !isRidOfHot(vm));
    keepNames(this.#node.vmis, this.#having, hasHot);
    this.#vms.start(signal);
    await this.#vms.synced();
    for (const cache of [this.#vms, this.#node.pods, this.#node.vmis] as const) {
      cache.onChange(() => {
        this.#lastChangeMs = performance.now();
      });
    }
  }

  /** Makes so many VMs; resolves when all run. Milliseconds. */
  async create(count: number): Promise<number> {
    const begin = performance.now();
    const nics = [{ name: "default" }, { name: "first", network: "first" }];
    await load(count, PARALLEL, async (index) => {
      const vm = vmManifest({ name: `vm-${String(index)}`, nics }) as VirtualMachine;
      const metadata = { ...vm.metadata, namespace: NAMESPACE };
      await this.#client.store.create(VIRTUAL_MACHINES, { ...vm, metadata });
    });
    await this.#until(() => this.#running.size === count);
    return (await this.settle()) - begin;
  }

  /** Plugs one NIC, and sees it done. */
  async plug(index: number): Promise<PlugTimes> {
    const name = `vm-${String(index)}`;
    const annotated = this.annotated(index);
    const ofVmi = (isSo: (vmi: VirtualMachineInstance) => boolean): Promise<number> =>
      when(this.#node.vmis, (vmi) => vmi.metadata.name === name && isSo(vmi));
    const attached = ofVmi(
      ({ status }) =>
        status?.attachments?.some((one) => one.name === HOT && one.state === "Attached") === true,
    );
    const ready = ofVmi(hasHot);
    const begin = performance.now();
    await this.#put(name, "addinterface");
    const answered = performance.now();
    const [annotatedAt, attachedAt] = await Promise.all([annotated, attached, ready]);
    return {
      answered: answered - begin,
      annotated: annotatedAt - begin,
      attached: attachedAt - begin,
    };
  }

  /** Takes the NIC out again; resolves when the VM does not name it any more. Milliseconds. */
  async unplug(index: number): Promise<number> {
    const name = `vm-${String(index)}`;
    const gone = when(this.#vms, (vm) => vm.metadata.name === name && isRidOfHot(vm));
    const begin = performance.now();
    await this.#put(name, "removeinterface");
    return (await gone) - begin;
  }

  /** Plugs one NIC into each of so many VMs. */
  async plugAll(count: number): Promise<BurstTimes> {
    const begin = performance.now();
    const put = await this.#putAll(count, "addinterface");
    await this.allPlugged(count);
    return { put, totalMs: performance.now() - begin };
  }

  /** Resolves when so many have their NIC. */
  allPlugged(count: number): Promise<void> {
    return this.#until(() => this.#having.size === count);
  }

  /** Calls back when a VM has got its NIC; the answer stops that. */
  onPlugged(tell: () => void): () => void {
    return this.#node.vmis.onChange((change) => {
      if (change.kind !== "updated" || hasHot(change.previous)) return;
      if (hasHot(change.current)) tell();
    });
  }

  /** Whether a VM names its NIC, as far as is known here. */
  isAskedFor(index: number): boolean {
    return this.#asking.has(`vm-${String(index)}`);
  }

  /** Names of those of the first VMs of which a specification, a status or a pod does not name the NIC exactly once. */
  plugMistakes(count: number): readonly string[] {
    const { vmis, pods } = this.#node;
    const annotations = new Map(
      pods
        .list()
        .map((pod) => [vmOf(pod), pod.metadata.annotations?.[names.NETWORKS_ANNOTATION] ?? ""]),
    );
    return Array.from({ length: count }, (_, index) => `vm-${String(index)}`).filter((name) => {
      const key = { namespace: NAMESPACE, name };
      const { spec, status } = vmis.find(key) ?? {};
      const lists = [
        this.#vms.find(key)?.spec.template.spec.networks,
        spec?.networks,
        spec?.domain.devices?.interfaces,
        status?.interfaces,
      ];
      const counts = lists.map((list) => list?.filter((entry) => entry.name === HOT).length);
      const named = annotations.get(name)?.split(`"${HOT}"`).length ?? 0;
      return [...counts, named - 1].some((times) => times !== 1);
    });
  }

  /** Takes it out of all of them. */
  async unplugAll(count: number): Promise<BurstTimes> {
    const begin = performance.now();
    const put = await this.#putAll(count, "removeinterface");
    await this.#until(() => this.#asking.size === 0);
    return { put, totalMs: performance.now() - begin };
  }

  /** Deletes all VMs; resolves when nothing is left of them. */
  async remove(): Promise<void> {
    await Promise.all(
      this.#vms.list().map(({ metadata }) => {
        const key = { namespace: NAMESPACE, name: metadata.name };
        return this.#client.store.delete(VIRTUAL_MACHINES, key);
      }),
    );
    await this.#until(
      () => this.#node.vmis.list().length === 0 && this.#node.pods.list().length === 0,
    );
  }

  /** Sends the request alone; resolves when it is answered. */
  async ask(index: number): Promise<void> {
    await this.#put(`vm-${String(index)}`, "addinterface");
  }

  /** The moment in which the pod is asked for the NIC. */
  annotated(index: number): Promise<number> {
    const name = `vm-${String(index)}`;
    return when(
      this.#node.pods,
      (pod) =>
        vmOf(pod) === name &&
        pod.metadata.annotations?.[names.NETWORKS_ANNOTATION]?.includes(`"${HOT}"`) === true,
    );
  }

  /** Waits until nothing has changed for a while; the moment of the last change. */
  async settle(): Promise<number> {
    await this.#until(() => performance.now() - this.#lastChangeMs > QUIET_MS);
    return this.#lastChangeMs;
  }

  #putAll(count: number, call: string): Promise<Load> {
    return load(count, PARALLEL, (index) => this.#put(`vm-${String(index)}`, call));
  }

  async #put(name: string, call: string): Promise<void> {
    const body =
      call === "addinterface" ? { name: HOT, networkAttachmentDefinitionName: HOT } : { name: HOT };
    await this.#client.requestRaw({
      method: "PUT",
      path: `/apis/subresources.kubevirt.io/v1/namespaces/${NAMESPACE}/virtualmachines/${name}/${call}`,
      body,
      timeoutMs: LONGEST_MS,
    });
  }

  async #until(isSo: () => boolean): Promise<void> {
    const end = performance.now() + LONGEST_MS;
    while (!isSo()) {
      if (performance.now() > end) throw new Error("it takes too long");
      await pass(20);
    }
  }
}
