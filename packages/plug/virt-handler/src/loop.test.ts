// SPDX-License-Identifier: Apache-2.0
// The loop as it runs on a node: what it works on unasked, what wakes it, and what it leaves behind.
import {
  VIRTUAL_MACHINE_INSTANCES,
  type KubeVirt,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { AppError, type MetricFamily } from "@patchbay/core";
import type { Hypervisor } from "@patchbay/core/ports";
import { createFakeCache, createFakeStore } from "@patchbay/kube/testing";
import { createFakeHypervisor, type FakeDaemon } from "@patchbay/libvirt/testing";
import {
  createFakeFiles,
  createFakeClock,
  createFakeLaunchers,
  settle,
} from "@patchbay/os/testing";
import {
  createFakeAddressServers,
  createFakeLinkCounters,
  createFakeLinkWatch,
  createFakePodNetwork,
} from "@patchbay/podnet/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { eventually } from "@patchbay/support";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createAddressStore } from "./addresses/address-store.ts";
import { runLoop } from "./loop.ts";
import { NETNS, sha256Hex } from "./testing/bench.ts";
import { openingTaps } from "./testing/opening-taps.ts";
import { aScheduledVmi, attachment, linkNamesOf, putNicAt } from "./testing/scene.ts";
import { launcherOf } from "./reconcilers/vmi/index.ts";

const KEY = { namespace: "default", name: "vm1" };
const NODE = "node1";
const SOCKET_FD = 7;
const SOON = { withinMs: 5_000 };

/** A node with one launcher that listens and one NIC in its pod. */
function aNode() {
  const podNetwork = createFakePodNetwork();
  const node = {
    store: createFakeStore(),
    vmis: createFakeCache<VirtualMachineInstance>(),
    hypervisor: createFakeHypervisor(),
    podNetwork,
    linkWatch: createFakeLinkWatch(podNetwork),
    linkCounters: createFakeLinkCounters(),
    sources: [] as (() => Promise<readonly MetricFamily[]>)[],
    launchers: createFakeLaunchers(),
    clock: createFakeClock(),
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

/** Its QEMU opens the taps of its devices. */
function openingHypervisor(): Hypervisor {
  const { hypervisor, podNetwork } = node;
  const qemu = {
    daemon: theDaemon(),
    openTap: (name: string): void => {
      podNetwork.openTap(NETNS, name);
    },
    disguise: (xml: string): string => xml,
  };
  return {
    open: async (address) => openingTaps(await hypervisor.open(address), qemu),
    close: () => hypervisor.close(),
  };
}

function theDaemon(): FakeDaemon {
  return node.hypervisor.daemonAt({ kind: "socket", fd: SOCKET_FD });
}

function start(): void {
  const { store, vmis, podNetwork, linkWatch, linkCounters, launchers, clock, stop } = node;
  const hypervisor = openingHypervisor();
  const parts = {
    ...{
      nodeName: NODE,
      store,
      vmis,
      hypervisor,
      podNetwork,
      linkWatch,
      linkCounters,
      launchers,
      concurrency: 2,
    },
    kubevirts: createFakeCache<KubeVirt>(),
    addressServers: createFakeAddressServers(),
    addressStore: createAddressStore(createFakeFiles(), "/addresses"),
    events: { record: () => undefined, flush: () => Promise.resolve() },
    clock,
    log: createFakeLogger(),
    metrics: {
      observeReconcile: ({ result }: { result: string }) => node.results.push(result),
      addSource: (read: () => Promise<readonly MetricFamily[]>) => node.sources.push(read),
    },
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
  theDaemon().endDomain("default_vm1", "stopped");
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

describe("whoever asks for metrics is told", () => {
  const received = { bytes: 1, packets: 2, errors: 3, dropped: 4 };
  const transmitted = { bytes: 10, packets: 20, errors: 30, dropped: 40 };

  async function samples(): Promise<readonly string[]> {
    const families = (await Promise.all(node.sources.map((read) => read()))).flat();
    return families.flatMap(({ name, samples: all }) =>
      all.map(({ labels, value }) => `${name} ${labels["interface"] ?? ""} ${String(value)}`),
    );
  }

  test("what went through the taps of VMs that run, as the guest sees it", async () => {
    const { tapName } = linkNamesOf("one");
    node.linkCounters.put(NETNS, { name: tapName, received, transmitted });
    await put(aScheduledVmi(["one"]));
    start();
    expect(await samples()).toEqual([]);
    await eventually(isRunning, SOON);
    await node.clock.advance(1_000);
    const told = await samples();
    expect(told).toContain("kubevirt_vmi_network_receive_bytes_total one 10");
    expect(told).toContain("kubevirt_vmi_network_transmit_packets_dropped_total one 4");
    expect(told.filter((line) => line.startsWith("kubevirt_vmi_vnic_info"))).toHaveLength(1);
  });

  test("the same when they ask again at once: the kernel is read once a second", async () => {
    const { tapName } = linkNamesOf("one");
    node.linkCounters.put(NETNS, { name: tapName, received, transmitted });
    await put(aScheduledVmi(["one"]));
    start();
    await eventually(isRunning, SOON);
    await node.clock.advance(1_000);
    const all = await Promise.all(Array.from({ length: 50 }, samples));
    expect(new Set(all.map((lines) => lines.join())).size).toBe(1);
    expect(node.linkCounters.readings).toBe(1);
    await node.clock.advance(1_000);
    await samples();
    expect(node.linkCounters.readings).toBe(2);
  });

  test("nothing of links that cannot be read, and all of the rest", async () => {
    await put(aScheduledVmi(["one"]));
    start();
    await eventually(isRunning, SOON);
    await node.clock.advance(1_000);
    expect(await samples()).toEqual(["kubevirt_vmi_vnic_info  1"]);
  });
});

describe("of a VM that runs and has its NIC", () => {
  const { tapName, bridgeName } = linkNamesOf("one");
  const { podInterfaceName } = attachment("one");

  function isReady(): boolean {
    const [iface] = node.vmis.find(KEY)?.status?.interfaces ?? [];
    const tap = node.podNetwork.findLink(NETNS, tapName);
    return isRunning() && iface?.hotplug?.phase === "Ready" && tap?.carrier === true;
  }

  /** Nothing is left to be done: neither is anything queued, nor does a timer run. */
  async function rest(): Promise<number> {
    await eventually(isReady, SOON);
    await settle();
    return node.results.length;
  }

  beforeEach(async () => {
    await put(aScheduledVmi(["one"]));
    start();
  });

  test("nothing is looked at as long as nothing happens", async () => {
    const passes = await rest();
    await node.clock.advance(24 * 3600 * 1000);
    expect(node.results).toHaveLength(passes);
    expect(node.linkWatch.countOf(NETNS)).toBe(1);
  });

  test.each([
    { name: "its tap goes", link: tapName },
    { name: "its bridge goes", link: bridgeName },
  ])("$name, and is there again at once", async ({ link }) => {
    await rest();
    node.podNetwork.takeLink(NETNS, link);
    expect(isReady() && link === tapName).toBe(false);
    await eventually(() => node.podNetwork.findLink(NETNS, link) !== undefined && isReady(), SOON);
  });

  test("its tap is moved to another bridge, and moves back", async () => {
    await rest();
    const tap = node.podNetwork.findLink(NETNS, tapName);
    if (tap !== undefined) node.podNetwork.putLink(NETNS, { ...tap, master: "br9" });
    const master = (): string | undefined => node.podNetwork.findLink(NETNS, tapName)?.master;
    expect(master()).toBe("br9");
    await eventually(() => master() === bridgeName, SOON);
  });

  test("its device is taken out by hand, and is plugged again", async () => {
    await rest();
    const calls = theDaemon().calls.length;
    const connection = await node.hypervisor.open({ kind: "socket", fd: SOCKET_FD });
    await connection.detachDevice("default_vm1", "ua-one", "live");
    const again = /^attachDevice default_vm1 ua-one live/;
    await eventually(
      () =>
        theDaemon()
          .calls.slice(calls)
          .some((call) => again.test(call)),
      SOON,
    );
    await eventually(isReady, SOON);
  });

  test("its links change because of us, for which it is looked at once more at most", async () => {
    const before = await rest();
    node.podNetwork.takeLink(NETNS, bridgeName);
    await eventually(() => node.podNetwork.findLink(NETNS, bridgeName) !== undefined, SOON);
    expect((await rest()) - before).toBeLessThanOrEqual(2);
  });

  test("other links change, for which it is not looked at", async () => {
    const before = await rest();
    node.podNetwork.putLink(NETNS, { name: "eth9", kind: "veth", mac: "", mtu: 1, up: true });
    await settle();
    expect(node.results).toHaveLength(before);
  });

  test("more links change than can be told, for which it is looked at once", async () => {
    const before = await rest();
    node.linkWatch.overflow(NETNS);
    await eventually(() => node.results.length === before + 1, SOON);
  });

  test("its NIC goes that CNI made, which is told, and comes again, which is seen", async () => {
    await rest();
    node.podNetwork.takeLink(NETNS, podInterfaceName);
    const reason = (): string | undefined =>
      node.vmis.find(KEY)?.status?.interfaces?.[0]?.hotplug?.reason;
    await eventually(() => reason() === "PodInterfaceMissing", SOON);
    putNicAt(node.podNetwork, "one");
    await eventually(isReady, SOON);
  });

  test("its launcher cannot be watched, which is told as any trouble with it", async () => {
    await rest();
    node.linkWatch.failNext(
      new AppError("OS_FILE_FAILED", { call: "watch", path: "", reason: "" }),
    );
    theDaemon().dropConnections("libvirt closed it");
    await settle();
    await node.clock.advance(1_000);
    await eventually(() => node.results.includes("failed"), SOON);
    await node.clock.advance(3_000);
    await eventually(() => node.linkWatch.countOf(NETNS) === 1, SOON);
  });
});
