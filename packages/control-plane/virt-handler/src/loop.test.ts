// SPDX-License-Identifier: Apache-2.0
// The loop as on a node: initial work, wake-ups and shutdown.
import { AppError } from "@patchbay/base";
import { settle } from "@patchbay/os/testing";
import { eventually } from "@patchbay/support";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { NETNS } from "./testing/bench.ts";
import { LoopNode } from "./testing/loop-node.ts";
import { aScheduledVmi, attachment, linkNamesOf, putNicAt } from "./testing/scene.ts";

const SOON = { withinMs: 5_000 };

let node: LoopNode;

function isRunning(): boolean {
  return node.isRunning;
}

beforeEach(() => {
  node = new LoopNode();
});
afterEach(() => node.stop());

test("reconciles a VMI that exists at the start", async () => {
  await node.put(aScheduledVmi(["one"]));
  node.start();
  await eventually(isRunning, SOON);
});

test("reconciles a new VMI, and again when it changes", async () => {
  node.start();
  await node.put(aScheduledVmi(["one"], { attachments: [] }));
  await eventually(() => node.launchers.openCount === 1, SOON);
  expect(isRunning()).toBe(false);
  await node.put(aScheduledVmi(["one"]));
  await eventually(isRunning, SOON);
});

test("releases the launcher of a VMI that has left the node", async () => {
  await node.put(aScheduledVmi(["one"]));
  node.start();
  await eventually(isRunning, SOON);
  expect(node.launchers.openCount).toBe(1);
  node.take();
  await eventually(() => node.launchers.openCount === 0, SOON);
});

test("counts a failed pass and retries at once when other components change the VMI", async () => {
  node.podNetwork.failNext("observe", new AppError("PODNET_FAILED", { message: "no" }));
  await node.put(aScheduledVmi(["one"], { attachments: [] }));
  node.start();
  await eventually(() => node.results.includes("failed"), SOON);
  await node.put(aScheduledVmi(["one"]));
  await eventually(isRunning, SOON);
});

test("a guest event wakes the loop", async () => {
  await node.put(aScheduledVmi(["one"]));
  node.start();
  await eventually(isRunning, SOON);
  node.daemon.endDomain("default_vm1", "stopped");
  await eventually(() => node.vmi?.status?.phase === "Succeeded", SOON);
});

test("an abort closes all sessions, and later changes wake nothing", async () => {
  await node.put(aScheduledVmi(["one"], { attachments: [] }));
  node.start();
  await eventually(() => node.launchers.openCount === 1, SOON);
  await node.stop();
  await eventually(() => node.launchers.openCount === 0, SOON);
  await node.put(aScheduledVmi(["one"]));
  expect(node.launchers.openCount).toBe(0);
});

describe("metrics report", () => {
  const received = { bytes: 1, packets: 2, errors: 3, dropped: 4 };
  const transmitted = { bytes: 10, packets: 20, errors: 30, dropped: 40 };

  async function samples(): Promise<readonly string[]> {
    const lines = (await node.metrics.print()).split("\n");
    return lines
      .filter((line) => line.startsWith("kubevirt_vmi_"))
      .map((line) => {
        const [, name = "", labels = "", value = ""] = /^(\w+)\{(.*)\} (\d+)$/.exec(line) ?? [];
        return `${name} ${/interface="(\w+)"/.exec(labels)?.[1] ?? ""} ${value}`;
      });
  }

  test("the traffic through the taps of running VMs, from the guest's point of view", async () => {
    const { tapName } = linkNamesOf("one");
    node.linkCounters.put(NETNS, { name: tapName, received, transmitted });
    await node.put(aScheduledVmi(["one"]));
    node.start();
    expect(await samples()).toEqual([]);
    await eventually(isRunning, SOON);
    await node.clock.advance(1_000);
    const told = await samples();
    expect(told).toContain("kubevirt_vmi_network_receive_bytes_total one 10");
    expect(told).toContain("kubevirt_vmi_network_transmit_packets_dropped_total one 4");
    expect(told.filter((line) => line.startsWith("kubevirt_vmi_vnic_info"))).toHaveLength(1);
  });

  test("cached values when scraped again at once: the kernel is read once a second", async () => {
    const { tapName } = linkNamesOf("one");
    node.linkCounters.put(NETNS, { name: tapName, received, transmitted });
    await node.put(aScheduledVmi(["one"]));
    node.start();
    await eventually(isRunning, SOON);
    await node.clock.advance(1_000);
    const all = await Promise.all(Array.from({ length: 50 }, samples));
    expect(new Set(all.map((lines) => lines.join())).size).toBe(1);
    expect(node.linkCounters.readCount).toBe(1);
    await node.clock.advance(1_000);
    await samples();
    expect(node.linkCounters.readCount).toBe(2);
  });

  test("nothing for unreadable links, and everything else", async () => {
    await node.put(aScheduledVmi(["one"]));
    node.start();
    await eventually(isRunning, SOON);
    await node.clock.advance(1_000);
    expect(await samples()).toEqual(["kubevirt_vmi_vnic_info  1"]);
  });
});

describe("a running VM with its NIC", () => {
  const { tapName, bridgeName } = linkNamesOf("one");
  const { podInterfaceName } = attachment("one");

  function isReady(): boolean {
    const [iface] = node.vmi?.status?.interfaces ?? [];
    const tap = node.podNetwork.findLink(NETNS, tapName);
    return isRunning() && iface?.hotplug?.phase === "Ready" && tap?.carrier === true;
  }

  /** Nothing is queued and no timer runs. */
  async function rest(): Promise<number> {
    await eventually(isReady, SOON);
    await settle();
    return node.results.length;
  }

  beforeEach(async () => {
    await node.put(aScheduledVmi(["one"]));
    node.start();
  });

  test("is not observed while nothing happens", async () => {
    const passes = await rest();
    await node.clock.advance(24 * 3600 * 1000);
    expect(node.results).toHaveLength(passes);
    expect(node.linkWatch.countWatches(NETNS)).toBe(1);
  });

  test.each([
    { name: "its tap is deleted", link: tapName },
    { name: "its bridge is deleted", link: bridgeName },
  ])("is repaired at once when $name", async ({ link }) => {
    await rest();
    node.podNetwork.takeLink(NETNS, link);
    expect(isReady() && link === tapName).toBe(false);
    await eventually(() => node.podNetwork.findLink(NETNS, link) !== undefined && isReady(), SOON);
  });

  test("gets its tap back when it is moved to another bridge", async () => {
    await rest();
    const tap = node.podNetwork.findLink(NETNS, tapName);
    if (tap !== undefined) node.podNetwork.putLink(NETNS, { ...tap, master: "br9" });
    const master = (): string | undefined => node.podNetwork.findLink(NETNS, tapName)?.master;
    expect(master()).toBe("br9");
    await eventually(() => master() === bridgeName, SOON);
  });

  test("gets its device back when it is detached by hand", async () => {
    await rest();
    const calls = node.daemon.calls.length;
    const connection = await node.hypervisor.open({ kind: "socket", fd: 7 });
    await connection.detachDevice("default_vm1", "ua-one", "live");
    const again = /^attachDevice default_vm1 ua-one live/;
    await eventually(() => node.daemon.calls.slice(calls).some((call) => again.test(call)), SOON);
    await eventually(isReady, SOON);
  });

  test("is observed at most once more because of the loop's own link changes", async () => {
    const before = await rest();
    node.podNetwork.takeLink(NETNS, bridgeName);
    await eventually(() => node.podNetwork.findLink(NETNS, bridgeName) !== undefined, SOON);
    expect((await rest()) - before).toBeLessThanOrEqual(2);
  });

  test("is not observed when foreign links change", async () => {
    const before = await rest();
    node.podNetwork.putLink(NETNS, { name: "eth9", kind: "veth", mac: "", mtu: 1, up: true });
    await settle();
    expect(node.results).toHaveLength(before);
  });

  test("is observed once when too many links change", async () => {
    const before = await rest();
    node.linkWatch.overflow(NETNS);
    await eventually(() => node.results.length === before + 1, SOON);
  });

  test("reports that its NIC has vanished, and notices its return", async () => {
    await rest();
    node.podNetwork.takeLink(NETNS, podInterfaceName);
    const reason = (): string | undefined => node.vmi?.status?.interfaces?.[0]?.hotplug?.reason;
    await eventually(() => reason() === "PodInterfaceMissing", SOON);
    putNicAt(node.podNetwork, "one");
    await eventually(isReady, SOON);
  });

  test("reports a launcher that cannot be watched like other launcher errors", async () => {
    await rest();
    node.linkWatch.failNext(
      new AppError("OS_FILE_FAILED", { call: "watch", path: "", reason: "" }),
    );
    node.daemon.dropConnections("libvirt closed it");
    await settle();
    await node.clock.advance(1_000);
    await eventually(() => node.results.includes("failed"), SOON);
    await node.clock.advance(3_000);
    await eventually(() => node.linkWatch.countWatches(NETNS) === 1, SOON);
  });
});
