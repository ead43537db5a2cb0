// SPDX-License-Identifier: Apache-2.0
// User operations on many VMs: create them, plug a NIC into each, and unplug it; with the time of each step.
import { setTimeout as pass } from "node:timers/promises";
import {
  names,
  VIRTUAL_MACHINES,
  type VirtualMachine,
  type VirtualMachineInstance,
} from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { createCache, type KubeClient, type StartableCache } from "@patchbay/kube";
import type { Cache } from "@patchbay/core/interfaces";
import type { Logger } from "@patchbay/base";
import { vmManifest } from "@patchbay/support";
import { load, type Load } from "../apiserver/load.ts";
import { NAMESPACE } from "./install.ts";
import { vmOf, type NodeSide } from "./node-side.ts";

/** Concurrent user requests. */
const PARALLEL = 32;
/** Time without changes that counts as done, milliseconds. */
const QUIET_MS = 1500;
/** Limit of any operation, milliseconds. */
const LONGEST_MS = 15 * 60_000;
const HOT = "hot";

/** Of one plug, milliseconds since its PUT was sent. */
export interface PlugTimes {
  readonly answered: number;
  readonly annotated: number;
  /** VMI attachment `Attached`; it includes the simulated node's write of `network-status`. */
  readonly attached: number;
}

/** One of many plugs, milliseconds. */
export interface BurstTimes {
  readonly put: Load;
  /** From the first PUT until the last VMI reports its NIC as plugged or gone. */
  readonly totalMs: number;
}

/** Calls back with each change of a cache, except deletions, until the condition holds for one object. */
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

/** Tracks the names of objects that fulfill a condition. */
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
  /**
   * Names of running VMs, of those with the hot NIC, and of VMIs with it, because counting 10,000 each time is slow.
   */
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

  /** Creates so many VMs; resolves when all run. Returns milliseconds. */
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

  /** Plugs one NIC and waits for it. */
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

  /** Unplugs the NIC; resolves when the VM does not name it any more. Returns milliseconds. */
  async unplug(index: number): Promise<number> {
    const name = `vm-${String(index)}`;
    const gone = when(this.#vms, (vm) => vm.metadata.name === name && isRidOfHot(vm));
    const begin = performance.now();
    await this.#put(name, "removeinterface");
    return (await gone) - begin;
  }

  async plugAll(count: number): Promise<BurstTimes> {
    const begin = performance.now();
    const put = await this.#putAll(count, "addinterface");
    await this.allPlugged(count);
    return { put, totalMs: performance.now() - begin };
  }

  allPlugged(count: number): Promise<void> {
    return this.#until(() => this.#having.size === count);
  }

  /** Calls back when a VM has its NIC; returns a function that cancels it. */
  onPlugged(tell: () => void): () => void {
    return this.#node.vmis.onChange((change) => {
      if (change.kind !== "updated" || hasHot(change.previous)) return;
      if (hasHot(change.current)) tell();
    });
  }

  /** Whether a VM names its NIC, by the cache. */
  isAskedFor(index: number): boolean {
    return this.#asking.has(`vm-${String(index)}`);
  }

  /** The first VMs whose spec, status or pod does not name the NIC exactly once. */
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

  /** Sends only the request; resolves with the response. */
  async ask(index: number): Promise<void> {
    await this.#put(`vm-${String(index)}`, "addinterface");
  }

  /** The time at which the pod's annotation requests the NIC. */
  annotated(index: number): Promise<number> {
    const name = `vm-${String(index)}`;
    return when(
      this.#node.pods,
      (pod) =>
        vmOf(pod) === name &&
        pod.metadata.annotations?.[names.NETWORKS_ANNOTATION]?.includes(`"${HOT}"`) === true,
    );
  }

  /** Waits until nothing has changed for a while; returns the time of the last change. */
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
