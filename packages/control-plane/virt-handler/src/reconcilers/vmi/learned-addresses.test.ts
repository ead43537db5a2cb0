// SPDX-License-Identifier: Apache-2.0
// Addresses that guests announce at their taps reach the status, and disappear with their NIC, network or another source.
import type { IfaceStatus } from "@patchbay/api";
import { describe, expect, test } from "vitest";
import { NETNS, type Bench } from "../../testing/bench.ts";
import {
  attachment,
  buildArp,
  linkNamesOf,
  MACS,
  running,
  without,
  type Name,
} from "../../testing/scene.ts";

const HOUR = 3_600_000;
const OTHER_MAC = "02:00:00:00:00:99";

async function emit(bench: Bench, name: Name, address: string, mac?: string): Promise<void> {
  const isOutgoing = mac !== undefined;
  const frame = buildArp(mac ?? MACS[name], address);
  bench.frameWatch.emit({ inode: NETNS }, linkNamesOf(name).tapName, { isOutgoing, frame });
  await Promise.resolve();
  await bench.resume();
}

async function statusOf(bench: Bench, name: Name = "one"): Promise<IfaceStatus | undefined> {
  return (await bench.vmi()).status?.interfaces?.find((each) => each.name === name);
}

async function addressesOf(bench: Bench, name: Name = "one"): Promise<readonly string[]> {
  return (await statusOf(bench, name))?.ipAddresses ?? [];
}

function watchedTaps(bench: Bench): readonly string[] {
  return bench.frameWatch.listWatched();
}

function tapOf(name: Name): string {
  return `${NETNS}/${linkNamesOf(name).tapName}`;
}

/** A running VM whose NIC `one` has a learned address. */
async function withLearned(): Promise<Bench> {
  const bench = await running(["one"]);
  await emit(bench, "one", "10.0.0.5");
  return bench;
}

async function later(bench: Bench, ms: number): Promise<void> {
  bench.nowMs += ms;
  expect(await bench.resume()).toEqual([]);
}

describe("an address that a guest announces", () => {
  test("is in the status of its NIC, with its source", async () => {
    const bench = await running();
    expect(watchedTaps(bench)).toEqual([tapOf("one"), tapOf("two")]);
    await emit(bench, "two", "10.0.0.5");
    expect(await statusOf(bench, "two")).toMatchObject({
      infoSource: "domain, multus-status, learned",
      ipAddress: "10.0.0.5",
      ipAddresses: ["10.0.0.5"],
      addressInfo: { source: "learned" },
    });
    expect(await statusOf(bench)).not.toHaveProperty("addressInfo");
  });

  test("is listed once, and costs no write when it is announced again", async () => {
    const bench = await withLearned();
    const writes = bench.store.calls.length;
    await emit(bench, "one", "10.0.0.5");
    expect(await addressesOf(bench)).toEqual(["10.0.0.5"]);
    const patches = bench.store.calls.slice(writes).filter((call) => call.startsWith("patch"));
    expect(patches).toEqual([]);
  });

  test("is removed when another host announces it", async () => {
    const bench = await withLearned();
    await emit(bench, "one", "10.0.0.6", OTHER_MAC);
    expect(await addressesOf(bench)).toEqual(["10.0.0.5"]);
    await emit(bench, "one", "10.0.0.5", OTHER_MAC);
    expect(await addressesOf(bench)).toEqual([]);
  });

  test("is removed after a day, for which the loop waits", async () => {
    const bench = await withLearned();
    expect(bench.next).toEqual({ kind: "after", ms: 24 * HOUR });
    await later(bench, 24 * HOUR);
    expect(await addressesOf(bench)).toEqual([]);
    expect(bench.next).toEqual({ kind: "done" });
  });

  test("is replaced by a report of the guest agent, which ends the listening", async () => {
    const bench = await withLearned();
    const nic = { name: "eth0", mac: MACS.one, addresses: ["10.0.0.9"] };
    bench.daemon.setAgent("default_vm1", [nic]);
    await later(bench, 1_000);
    await later(bench, 1_000);
    expect(await statusOf(bench)).toMatchObject({
      infoSource: "domain, guest-agent, multus-status",
      ipAddresses: ["10.0.0.9"],
    });
    expect(watchedTaps(bench)).toEqual([]);
  });

  test("is replaced by addresses of CNI", async () => {
    const bench = await withLearned();
    const attachments = [{ ...attachment("one"), ips: ["10.0.0.7"] }];
    await bench.edit((vmi) => ({ ...vmi, status: { ...vmi.status, attachments } }));
    await bench.resume();
    expect(await statusOf(bench)).toMatchObject({
      ipAddresses: ["10.0.0.7"],
      addressInfo: { source: "pod" },
    });
    expect(watchedTaps(bench)).toEqual([]);
  });

  test("disappears with its NIC", async () => {
    const bench = await withLearned();
    await bench.edit((vmi) => without(vmi, "one"));
    await bench.resume();
    expect(watchedTaps(bench)).toEqual([]);
    expect(await addressesOf(bench)).toEqual([]);
  });

  test("disappears when the NIC joins another network, whose addresses are then learned", async () => {
    const bench = await withLearned();
    // printf one/default/red | sha256sum
    const podInterfaceName = "poded42fef81fd";
    const swapped = { ...attachment("one"), networkName: "default/red", podInterfaceName };
    await bench.edit((vmi) => ({
      ...vmi,
      spec: { ...vmi.spec, networks: [{ name: "one", multus: { networkName: "red" } }] },
      status: { ...vmi.status, attachments: [attachment("one"), swapped] },
    }));
    const link = { name: podInterfaceName, kind: "veth", mac: OTHER_MAC, mtu: 1500, up: true };
    bench.podNetwork.putLink(NETNS, link);
    await bench.resume();
    expect(await statusOf(bench)).toMatchObject({ podInterfaceName, hotplug: { phase: "Ready" } });
    expect(await addressesOf(bench)).toEqual([]);
    await emit(bench, "one", "10.9.0.5");
    expect(await addressesOf(bench)).toEqual(["10.9.0.5"]);
  });

  test("remains over a restart of the process, for an hour unless it is announced again", async () => {
    const bench = await withLearned();
    bench.nowMs += HOUR;
    await bench.run();
    expect(await addressesOf(bench)).toEqual(["10.0.0.5"]);
    await later(bench, HOUR - 1);
    expect(await addressesOf(bench)).toEqual(["10.0.0.5"]);
    await later(bench, 1);
    expect(await addressesOf(bench)).toEqual([]);
    await emit(bench, "one", "10.0.0.5");
    expect(await addressesOf(bench)).toEqual(["10.0.0.5"]);
  });

  test("remains while libvirt is away, although the listener ends with the session", async () => {
    const bench = await withLearned();
    const before = await statusOf(bench);
    bench.daemon.stop();
    bench.launcher.stop();
    await bench.resume();
    expect(watchedTaps(bench)).toEqual([]);
    expect(await statusOf(bench)).toMatchObject({
      infoSource: before?.infoSource,
      ipAddresses: ["10.0.0.5"],
      addressInfo: before?.addressInfo,
    });
    bench.daemon.start();
    bench.launcher.start();
    await bench.resume();
    expect(watchedTaps(bench)).toEqual([tapOf("one")]);
    await later(bench, 2 * HOUR);
    expect(await addressesOf(bench)).toEqual(["10.0.0.5"]);
  });
});

test("a tap that cannot be watched is only logged, and watched in the next pass", async () => {
  const bench = await running(["one"]);
  const { tapName } = linkNamesOf("one");
  const message = "cannot learn the addresses of a NIC";
  bench.frameWatch.setMissing(tapName, true);
  await bench.run();
  expect(bench.log.lines).toContainEqual(expect.objectContaining({ level: "warn", message }));
  expect((await statusOf(bench))?.hotplug?.phase).toBe("Ready");
  bench.frameWatch.setMissing(tapName, false);
  await bench.resume();
  await emit(bench, "one", "10.0.0.5");
  expect(await addressesOf(bench)).toEqual(["10.0.0.5"]);
});
