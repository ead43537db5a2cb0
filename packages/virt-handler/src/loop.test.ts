// SPDX-License-Identifier: Apache-2.0
// The loop as it runs on a node: what it works on unasked, what wakes it, and what it leaves behind.
import {
  VIRTUAL_MACHINE_INSTANCES,
  type KubeVirt,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { AppError } from "@patchbay/core";
import {
  createFakeCache,
  createFakeClock,
  createFakeHypervisor,
  createFakeLaunchers,
  createFakeLogger,
  createFakePodNetwork,
  createFakeStore,
} from "@patchbay/ports/testing";
import { eventually } from "@patchbay/testing";
import { afterEach, beforeEach, expect, test } from "vitest";
import { runLoop } from "./loop.ts";
import { NETNS, sha256Hex } from "./testing/bench.ts";
import { aScheduledVmi, putNicAt } from "./testing/scene.ts";
import { launcherOf } from "./reconcilers/vmi/index.ts";

const KEY = { namespace: "default", name: "vm1" };
const NODE = "node1";
const SOCKET_FD = 7;
const SOON = { withinMs: 5_000 };

/** A node with one launcher that listens and one NIC in its pod. */
function aNode() {
  const node = {
    store: createFakeStore(),
    vmis: createFakeCache<VirtualMachineInstance>(),
    hypervisor: createFakeHypervisor(),
    podNetwork: createFakePodNetwork(),
    launchers: createFakeLaunchers(),
    stop: new AbortController(),
    results: [] as string[],
    loop: Promise.resolve(),
  };
  const pod = launcherOf(aScheduledVmi([]), { nodeName: NODE, sha256Hex });
  if (pod === undefined) throw new Error("the VMI is on no node");
  node.launchers.start(pod, { socketFd: SOCKET_FD, netns: { fd: 8, inode: NETNS } });
  node.hypervisor.daemonAt({ kind: "socket", fd: SOCKET_FD });
  putNicAt(node.podNetwork, "one");
  return node;
}

let node: ReturnType<typeof aNode>;

/** The watch tells what is in the store. */
async function look(): Promise<void> {
  const vmi = await node.store.find(VIRTUAL_MACHINE_INSTANCES, KEY);
  if (vmi !== undefined) node.vmis.put(vmi);
}

async function put(vmi: VirtualMachineInstance): Promise<void> {
  node.store.put(VIRTUAL_MACHINE_INSTANCES, vmi);
  await look();
}

function start(): void {
  const { store, vmis, hypervisor, podNetwork, launchers, stop } = node;
  const parts = {
    ...{ nodeName: NODE, store, vmis, hypervisor, podNetwork, launchers, concurrency: 2 },
    kubevirts: createFakeCache<KubeVirt>(),
    events: { record: () => undefined, flush: () => Promise.resolve() },
    clock: createFakeClock(),
    log: createFakeLogger(),
    metrics: { observeReconcile: ({ result }: { result: string }) => node.results.push(result) },
  };
  node.loop = runLoop(parts, stop.signal);
}

function isRunning(): boolean {
  return node.vmis.find(KEY)?.status?.phase === "Running";
}

beforeEach(() => {
  node = aNode();
  const { store } = node;
  const write = store.patch.bind(store);
  store.patch = async (type, key, ...rest) => {
    const written = await write(type, key, ...rest);
    await look();
    return written;
  };
});
afterEach(async () => {
  node.stop.abort();
  await node.loop;
});

test("a VMI that is there at the start is worked on unasked", async () => {
  await put(aScheduledVmi(["one"]));
  start();
  await eventually(isRunning, SOON);
});

test("a VMI that comes later is worked on, and again when it changes", async () => {
  start();
  await put(aScheduledVmi(["one"], { attachments: [] }));
  await eventually(() => node.launchers.openCount === 1, SOON);
  expect(isRunning()).toBe(false);
  await put(aScheduledVmi(["one"]));
  await eventually(isRunning, SOON);
});

test("the launcher of a VMI that has left the node is let go of", async () => {
  await put(aScheduledVmi(["one"]));
  start();
  await eventually(isRunning, SOON);
  expect(node.launchers.openCount).toBe(1);
  node.vmis.take(KEY);
  await eventually(() => node.launchers.openCount === 0, SOON);
});

test("a pass that failed is counted, and made again at once when others say something new", async () => {
  node.podNetwork.failNext("look", new AppError("PODNET_FAILED", { message: "no" }));
  await put(aScheduledVmi(["one"], { attachments: [] }));
  start();
  await eventually(() => node.results.includes("failed"), SOON);
  await put(aScheduledVmi(["one"]));
  await eventually(isRunning, SOON);
});

test("an event of the guest wakes the loop", async () => {
  await put(aScheduledVmi(["one"]));
  start();
  await eventually(isRunning, SOON);
  node.hypervisor.daemonAt({ kind: "socket", fd: SOCKET_FD }).endDomain("default_vm1", "stopped");
  await eventually(() => node.vmis.find(KEY)?.status?.phase === "Succeeded", SOON);
});

test("an abort closes all sessions, and a change wakes nobody any more", async () => {
  await put(aScheduledVmi(["one"], { attachments: [] }));
  start();
  await eventually(() => node.launchers.openCount === 1, SOON);
  node.stop.abort();
  await node.loop;
  await eventually(() => node.launchers.openCount === 0, SOON);
  await put(aScheduledVmi(["one"]));
  expect(node.launchers.openCount).toBe(0);
});
