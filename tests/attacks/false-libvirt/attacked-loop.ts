// SPDX-License-Identifier: Apache-2.0
// virt-handler's loop over one VM with a false libvirt: its actions, logs and writes.
import {
  VIRTUAL_MACHINE_INSTANCES,
  type KubeVirt,
  type VirtualMachineInstance,
} from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { keyOf, type EventRecorder } from "@patchbay/kube";
import { createClock } from "@patchbay/os";
import type { Cache, Change, HypervisorAddress, Launchers, Store } from "@patchbay/core/interfaces";
import type { Clock, Logger } from "@patchbay/base";
import { createFakeStore } from "@patchbay/kube/testing";
import { createFakeHookSidecars } from "@patchbay/hooks/testing";
import {
  createFakeFiles,
  createFakeLauncherDisks,
  createFakeVhostSockets,
} from "@patchbay/os/testing";
import {
  createFakeLinkCounters,
  createFakeFrameWatch,
  createFakeLinkWatch,
  createFakePodNetwork,
  createFakeAddressServers,
} from "@patchbay/podnet/testing";
import { aVmi } from "@patchbay/support";
import { createMetrics } from "@patchbay/telemetry";
import { createAddressStore, createFakeRelays, runLoop } from "@patchbay/virt-handler/testing";
import type { AttackedNode } from "./false-libvirt.ts";

const NODE = "node1";
/** The deadline of a pass. Source: packages/control-plane/virt-handler/src/sessions/backoff.ts. */
const PASS_DEADLINE_MS = 90_000;
/** The uid in the VMI's status. */
export const POD_UID = "pod-uid";
const SCHEDULED = aVmi({
  nics: [],
  status: { phase: "Scheduled", activePods: { [POD_UID]: NODE } },
});

/** A cache of one object that notifies on changes. */
class OneObject<T extends KubeObject> implements Cache<T> {
  readonly #listeners = new Set<(change: Change<T>) => void>();
  #object: T | undefined;

  set(current: T): void {
    const previous = this.#object;
    this.#object = current;
    for (const listener of this.#listeners) {
      listener(
        previous === undefined
          ? { kind: "added", current }
          : { kind: "updated", previous, current },
      );
    }
  }

  find(): T | undefined {
    return this.#object;
  }

  list(): readonly T[] {
    return this.#object === undefined ? [] : [this.#object];
  }

  listBy(): readonly T[] {
    return this.list();
  }

  onChange(listener: (change: Change<T>) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  synced(): Promise<void> {
    return Promise.resolve();
  }
}

export class AttackedLoop {
  /** Logged messages and reasons. */
  readonly log: string[] = [];
  /** Events, as `REASON message`. */
  readonly events: string[] = [];
  /** Writes of the VMI's status. */
  writes = 0;
  /** Timers that the loop requested, milliseconds: the deadline of each pass, and pauses between passes. */
  readonly #waitsMs: number[] = [];
  readonly #vmis = new OneObject<VirtualMachineInstance>();
  readonly #stop = new AbortController();
  readonly #ended: Promise<void>;

  constructor(node: AttackedNode, launchers: Launchers, vmi = SCHEDULED) {
    this.#vmis.set(vmi);
    const parts = {
      nodeName: NODE,
      store: this.#store(vmi),
      vmis: this.#vmis,
      kubevirts: new OneObject<KubeVirt>(),
      launchers,
      hypervisor: node.hypervisor,
      frameWatch: createFakeFrameWatch(),
      linkWatch: createFakeLinkWatch(),
      vhostSockets: createFakeVhostSockets(),
      launcherDisks: createFakeLauncherDisks(),
      linkCounters: createFakeLinkCounters(),
      relays: createFakeRelays(),
      podNetwork: createFakePodNetwork(),
      addressServers: createFakeAddressServers(),
      hooks: createFakeHookSidecars(),
      addressStore: createAddressStore(createFakeFiles(), "/addresses"),
      events: this.#recorder(),
      clock: this.#clock(),
      log: this.#logger(),
      metrics: createMetrics("virt-handler"),
      concurrency: 4,
    };
    this.#ended = runLoop(parts, this.#stop.signal);
  }

  get vmi(): VirtualMachineInstance | undefined {
    return this.#vmis.find();
  }

  /** Number of passes started: each requests its deadline. */
  get passes(): number {
    return this.#waitsMs.filter((ms) => ms >= PASS_DEADLINE_MS).length;
  }

  /** The longest pause that the loop requested between passes, milliseconds. */
  get longestPauseMs(): number {
    return Math.max(0, ...this.#waitsMs.filter((ms) => ms < PASS_DEADLINE_MS));
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#ended;
  }

  /** Writes trigger notifications, as by a watch. */
  #store(first: VirtualMachineInstance): Store {
    const store = createFakeStore();
    store.put(VIRTUAL_MACHINE_INSTANCES, first);
    const tell = async (): Promise<void> => {
      this.writes += 1;
      const vmi = await store.find(VIRTUAL_MACHINE_INSTANCES, keyOf(first));
      if (vmi !== undefined) this.#vmis.set(vmi);
    };
    return new Proxy(store, {
      get: (target, name): unknown => {
        if (name === "patch") setImmediate(() => void tell());
        const value: unknown = Reflect.get(target, name, target);
        return typeof value === "function" ? (value.bind(target) as unknown) : value;
      },
    });
  }

  #clock(): Clock {
    const clock = createClock();
    const sleep: Clock["sleep"] = (ms, signal) => {
      this.#waitsMs.push(ms);
      return clock.sleep(ms, signal);
    };
    return { ...clock, sleep };
  }

  #recorder(): EventRecorder {
    return {
      record: (_object, { reason, message }) => {
        this.events.push(`${reason} ${message}`);
      },
      flush: () => Promise.resolve(),
    };
  }

  #logger(): Logger {
    const note = (message: string, fields?: Readonly<Record<string, unknown>>): void => {
      this.log.push(JSON.stringify({ message, ...fields }));
    };
    const ignore = (): void => undefined;
    const logger: Logger = {
      debug: ignore,
      info: note,
      warn: note,
      error: note,
      child: () => logger,
    };
    return logger;
  }
}

/** Launchers whose libvirt listens at that socket, with all checks passed. */
export function launchersAt(address: HypervisorAddress): Launchers {
  if (address.kind !== "socket") throw new Error("a launcher is reached by its socket");
  return {
    open: () =>
      Promise.resolve({
        socketFd: address.fd,
        directoryFd: -1,
        netns: { fd: -1, inode: "1" },
        ended: new Promise<void>(() => undefined),
        close: () => undefined,
      }),
    watch: () => undefined,
  };
}
