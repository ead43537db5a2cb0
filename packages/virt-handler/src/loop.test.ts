// SPDX-License-Identifier: Apache-2.0
// The loop as it runs on a node: what it works on unasked, what wakes it, and what it leaves behind.
import {
  VIRTUAL_MACHINE_INSTANCES,
  type KubeVirt,
  type VirtualMachineInstance,
} from "@patchbay/api";
import type { Cache, Change, Clock, Launcher, LauncherPod } from "@patchbay/ports";
import {
  createFakeHypervisor,
  createFakePodNetwork,
  createFakeStore,
  type FakeDaemon,
  type FakeStore,
} from "@patchbay/ports/testing";
import { createSilentLogger } from "@patchbay/telemetry";
import { eventually } from "@patchbay/testing";
import { afterEach, beforeEach, expect, test } from "vitest";
import { runLoop } from "./loop.ts";
import { aScheduledVmi, putNicAt } from "./testing/scene.ts";

const KEY = { namespace: "default", name: "vm1" };
const SOCKET_FD = 7;
const SOON = { withinMs: 20_000 };

/** Time stands still; what sleeps is woken by an abort only. */
const clock: Clock = {
  now: () => 1_000_000,
  monotonicMs: () => 1_000_000,
  sleep: (_ms, signal) =>
    new Promise((_resolve, reject) => {
      signal.addEventListener("abort", () => {
        reject(new Error("aborted"));
      });
    }),
};

/** The VMIs of the node, as their watch tells of them. */
class WatchedVmis implements Cache<VirtualMachineInstance> {
  #current: VirtualMachineInstance | undefined;
  readonly #listeners = new Set<(change: Change<VirtualMachineInstance>) => void>();

  get listeners(): number {
    return this.#listeners.size;
  }

  show(current: VirtualMachineInstance): void {
    const previous = this.#current;
    this.#current = current;
    this.#tell(
      previous === undefined ? { kind: "added", current } : { kind: "updated", previous, current },
    );
  }

  remove(): void {
    const previous = this.#current;
    this.#current = undefined;
    if (previous !== undefined) this.#tell({ kind: "deleted", previous });
  }

  find(): VirtualMachineInstance | undefined {
    return this.#current;
  }

  list(): readonly VirtualMachineInstance[] {
    return this.#current === undefined ? [] : [this.#current];
  }

  listBy(): readonly VirtualMachineInstance[] {
    return this.list();
  }

  onChange(listener: (change: Change<VirtualMachineInstance>) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  synced(): Promise<void> {
    return Promise.resolve();
  }

  #tell(change: Change<VirtualMachineInstance>): void {
    for (const listener of this.#listeners) listener(change);
  }
}

const noKubevirts: Cache<KubeVirt> = {
  find: () => undefined,
  list: () => [],
  listBy: () => [],
  onChange: () => () => undefined,
  synced: () => Promise.resolve(),
};

let stop: AbortController;
let store: FakeStore;
let vmis: WatchedVmis;
let daemon: FakeDaemon;
let opened: LauncherPod[];
let closed: number;
let isOver: boolean;

/** Lets the watch tell of each write. */
function watch(store: FakeStore): void {
  const write = store.patch.bind(store);
  store.patch = async (type, key, ...rest) => {
    const written = await write(type, key, ...rest);
    const vmi = await store.find(VIRTUAL_MACHINE_INSTANCES, KEY);
    if (vmi !== undefined) vmis.show(vmi);
    return written;
  };
}

async function come(vmi: VirtualMachineInstance): Promise<void> {
  store.put(VIRTUAL_MACHINE_INSTANCES, vmi);
  const found = await store.find(VIRTUAL_MACHINE_INSTANCES, KEY);
  if (found !== undefined) vmis.show(found);
}

function start(): Promise<void> {
  const hypervisor = createFakeHypervisor();
  daemon = hypervisor.daemonAt({ kind: "socket", fd: SOCKET_FD });
  const podNetwork = createFakePodNetwork();
  putNicAt(podNetwork, "one");
  const launcher: Launcher = {
    socketFd: SOCKET_FD,
    netns: { fd: 8, inode: "42" },
    ended: new Promise<void>(() => undefined),
    close: () => (closed += 1),
  };
  const open = (pod: LauncherPod): Promise<Launcher> => {
    opened.push(pod);
    return Promise.resolve(launcher);
  };
  return runLoop(
    {
      ...{ nodeName: "node1", store, vmis, kubevirts: noKubevirts, hypervisor, podNetwork, clock },
      launchers: { open, watch: () => undefined },
      events: { record: () => undefined, flush: () => Promise.resolve() },
      log: createSilentLogger(),
      concurrency: 2,
    },
    stop.signal,
  ).finally(() => (isOver = true));
}

function isRunning(): boolean {
  return vmis.find()?.status?.phase === "Running";
}

beforeEach(() => {
  stop = new AbortController();
  store = createFakeStore();
  vmis = new WatchedVmis();
  watch(store);
  opened = [];
  closed = 0;
  isOver = false;
});
afterEach(async () => {
  stop.abort();
  await eventually(() => isOver, SOON);
});

test("a VMI that is there at the start is worked on unasked", async () => {
  await come(aScheduledVmi(["one"]));
  void start();
  await eventually(isRunning, SOON);
  expect(opened).toMatchObject([{ uid: "pod-uid", namespace: "default" }]);
});

test("a VMI that comes later is worked on, and again when it changes", async () => {
  void start();
  await come(aScheduledVmi(["one"], { attachments: [] }));
  await eventually(() => opened.length > 0, SOON);
  expect(daemon.calls.filter((call) => call.startsWith("startDomain"))).toEqual([]);
  await come(aScheduledVmi(["one"]));
  await eventually(isRunning, SOON);
});

test("the launcher of a VMI that has left the node is let go of", async () => {
  await come(aScheduledVmi(["one"]));
  void start();
  await eventually(isRunning, SOON);
  vmis.remove();
  await eventually(() => closed === 1, SOON);
});

test("an abort closes all sessions, and nothing listens any more", async () => {
  await come(aScheduledVmi(["one"]));
  const loop = start();
  await eventually(isRunning, SOON);
  expect(closed).toBe(0);
  stop.abort();
  await loop;
  await eventually(() => closed === 1, SOON);
  expect(vmis.listeners).toBe(0);
});
