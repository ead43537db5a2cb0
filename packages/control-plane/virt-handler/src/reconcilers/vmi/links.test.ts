// SPDX-License-Identifier: Apache-2.0
// A NIC is Ready when all its links exist and QEMU has its tap open, wherever an earlier attempt ended.
import type { IfaceStatus } from "@patchbay/api";
import { AppError } from "@patchbay/base";
import { WIRING_PARTS } from "@patchbay/podnet/testing";
import { describe, expect, test } from "vitest";
import { createBench, NETNS, type Bench } from "../../testing/bench.ts";
import {
  UNPLUG_RETRY_INTERVAL_MS,
  aScheduledVmi,
  attachment,
  devicesOf,
  linkNamesOf,
  putNic,
  running,
} from "../../testing/scene.ts";

const MAC = "02:00:00:00:00:01";
const { podInterfaceName } = attachment("one");
const LINKS = linkNamesOf("one");
const WIRING = { kind: "bridge", ...LINKS, podInterfaceName, mac: MAC } as const;

async function isWired(bench: Bench): Promise<boolean> {
  const view = await bench.podNetwork.observe({ fd: 8, inode: NETNS });
  return view.isWired({ ...WIRING, mtu: 1500 });
}

async function hotplug(bench: Bench): Promise<IfaceStatus["hotplug"]> {
  return (await bench.vmi()).status?.interfaces?.find(({ name }) => name === "one")?.hotplug;
}

/** A node whose VM is to start with its NIC. */
function starting(): Promise<Bench> {
  const bench = createBench(aScheduledVmi(["one"]));
  putNic(bench, "one");
  return Promise.resolve(bench);
}

/** A node whose running VM shall get its NIC. */
async function plugging(): Promise<Bench> {
  const bench = await running([]);
  const { spec } = aScheduledVmi(["one"]);
  const attachments = [attachment("one")];
  await bench.edit((vmi) => ({ ...vmi, spec, status: { ...vmi.status, attachments } }));
  putNic(bench, "one");
  return bench;
}

describe.each([
  { when: "a VM starts", set: starting },
  { when: "a NIC is plugged", set: plugging },
])("a wiring that is interrupted when $when", ({ set }) => {
  test.each(WIRING_PARTS)("before the %s is completed, and not Ready before", async (part) => {
    const bench = await set();
    bench.podNetwork.failBefore(part, new AppError("PODNET_FAILED", { message: "no memory" }));
    await bench.resume();
    expect(await isWired(bench)).toBe(false);
    expect((await hotplug(bench))?.phase ?? "Wiring").toBe("Wiring");
    bench.nowMs += 60_000;
    await bench.resume();
    expect(await isWired(bench)).toBe(true);
    expect(await hotplug(bench)).toMatchObject({ phase: "Ready" });
  });

  test.each(WIRING_PARTS)("before the %s is completed by the next process", async (part) => {
    const bench = await set();
    bench.podNetwork.failBefore(part, new AppError("PODNET_FAILED", { message: "killed" }));
    await bench.resume();
    await bench.run();
    expect(await isWired(bench)).toBe(true);
    expect(await hotplug(bench)).toMatchObject({ phase: "Ready" });
  });
});

test("repairs a wiring that loses its forwarding entry while the guest runs", async () => {
  const bench = await running(["one"]);
  bench.podNetwork.dropForwarding(NETNS, LINKS.tapName);
  expect(await isWired(bench)).toBe(false);
  const { length: calls } = bench.daemon.calls;
  await bench.resume();
  expect(await isWired(bench)).toBe(true);
  expect(bench.daemon.calls.slice(calls).filter((call) => call.startsWith("detach"))).toEqual([]);
});

describe("a tap that is deleted under QEMU", () => {
  const replace = (bench: Bench): void => {
    const tap = bench.podNetwork.findLink(NETNS, LINKS.tapName);
    bench.podNetwork.takeLink(NETNS, LINKS.tapName);
    if (tap !== undefined) bench.podNetwork.putLink(NETNS, { ...tap, carrier: false });
  };
  const remove = (bench: Bench): void => {
    bench.podNetwork.takeLink(NETNS, LINKS.tapName);
  };

  test.each([
    { name: "and recreated by another program", lose: replace },
    { name: "and not recreated", lose: remove },
  ])("$name gets its device back", async ({ lose }) => {
    const bench = await running();
    lose(bench);
    await bench.resume();
    expect(devicesOf(bench)).toEqual(["ua-two", "ua-one"]);
    expect(bench.podNetwork.findLink(NETNS, LINKS.tapName)?.carrier).toBe(true);
    expect(await hotplug(bench)).toMatchObject({ phase: "Ready" });
    expect((await hotplug(bench))?.reason).toBeUndefined();
  });

  test("is not Ready while the guest holds the device, which is requested again", async () => {
    const bench = await running(["one"]);
    bench.daemon.unplugPolicy = "lose";
    replace(bench);
    await bench.resume();
    expect(await hotplug(bench)).toMatchObject({
      type: "Plug",
      phase: "Attaching",
      reason: "TapReplaced",
      attempts: 1,
    });
    bench.nowMs += UNPLUG_RETRY_INTERVAL_MS;
    await bench.resume();
    expect(await hotplug(bench)).toMatchObject({ reason: "TapReplaced", attempts: 2 });
    const asked = bench.daemon.calls.filter((call) => /^detachDevice .* live/.test(call));
    expect(asked).toHaveLength(2);
    bench.daemon.stop();
    await bench.resume();
    expect(await hotplug(bench)).toMatchObject({ phase: "Attaching" });
  });

  test("is not Ready while another process has the new tap open", async () => {
    const bench = await running(["one"]);
    bench.daemon.unplugPolicy = "lose";
    const tap = bench.podNetwork.findLink(NETNS, LINKS.tapName);
    remove(bench);
    if (tap !== undefined) bench.podNetwork.putLink(NETNS, { ...tap, carrier: true });
    await bench.resume();
    expect(await hotplug(bench)).toMatchObject({ phase: "Attaching", reason: "TapReplaced" });
    bench.daemon.unplugPolicy = "grant";
    bench.nowMs += UNPLUG_RETRY_INTERVAL_MS;
    await bench.resume();
    expect(await hotplug(bench)).toMatchObject({ phase: "Ready" });
  });

  test.each([
    { name: "its device is plugged again", unplugPolicy: "grant" },
    { name: "the guest keeps its device", unplugPolicy: "lose" },
  ] as const)("is reported in an event once while $name", async ({ unplugPolicy }) => {
    const bench = await running(["one"]);
    bench.daemon.unplugPolicy = unplugPolicy;
    remove(bench);
    await bench.resume();
    const drifts = (): readonly string[] =>
      bench.events.filter((event) => event.startsWith("InterfaceDrifted"));
    expect(drifts()[0]).toContain("interface one: its tap did not exist and was recreated");
    const { length } = drifts();
    await bench.resume();
    expect(drifts()).toHaveLength(length);
  });
});

test("queries libvirt once while only links are repaired", async () => {
  const bench = await running(["one"]);
  bench.podNetwork.takeLink(NETNS, LINKS.bridgeName);
  const asked = (): number =>
    bench.daemon.calls.filter((call) => call.startsWith("findDomain")).length;
  const before = asked();
  await bench.wake();
  expect(bench.podNetwork.findLink(NETNS, LINKS.bridgeName)).toBeDefined();
  expect(asked()).toBe(before + 1);
});

describe("a launcher that deletes its tap again and again", () => {
  const spoil = async (bench: Bench, times: number): Promise<number> => {
    let made = 0;
    for (let time = 0; time < times; time += 1) {
      const before = bench.podNetwork.findLink(NETNS, LINKS.tapName)?.index;
      bench.podNetwork.takeLink(NETNS, LINKS.tapName);
      await bench.resume();
      const after = bench.podNetwork.findLink(NETNS, LINKS.tapName)?.index;
      if (after !== undefined && after !== before) made += 1;
    }
    return made;
  };

  test("has it repaired ten times, then every 10 s, and is reported", async () => {
    const bench = await running(["one"]);
    expect(await spoil(bench, 40)).toBeLessThan(10);
    expect(await hotplug(bench)).toMatchObject({ phase: "Wiring", reason: "LinksRestless" });
    expect(bench.next).toMatchObject({ kind: "after" });
    bench.nowMs += 10_000;
    await bench.resume();
    expect(await hotplug(bench)).toMatchObject({ phase: "Ready" });
    expect(await spoil(bench, 10)).toBe(0);
  });

  test("has it repaired at once when the VM changes", async () => {
    const bench = await running(["one"]);
    await spoil(bench, 40);
    await bench.edit((vmi) => ({ ...vmi, metadata: { ...vmi.metadata, generation: 7 } }));
    await bench.resume();
    expect(await hotplug(bench)).toMatchObject({ phase: "Ready" });
  });

  test("does not delay its other NICs beyond the VM's next pass", async () => {
    const bench = await running();
    await spoil(bench, 40);
    bench.nowMs += 1_000;
    const other = linkNamesOf("two").tapName;
    bench.podNetwork.takeLink(NETNS, other);
    await bench.resume();
    expect(bench.podNetwork.findLink(NETNS, other)).toBeDefined();
  });
});

describe("Patchbay's links that belong to no iface", () => {
  const ORPHAN = "k6t-0123456789a";
  const put = (bench: Bench): void => {
    bench.podNetwork.putLink(NETNS, {
      name: ORPHAN,
      kind: "bridge",
      mac: MAC,
      mtu: 1500,
      up: true,
    });
  };

  test.each([
    { name: "while the VM runs", make: () => running(["one"]) },
    { name: "before the VM starts", make: starting },
  ])("are removed $name", async ({ make }) => {
    const bench = await make();
    put(bench);
    await bench.resume();
    expect(bench.podNetwork.findLink(NETNS, ORPHAN)).toBeUndefined();
    expect(await hotplug(bench)).toMatchObject({ phase: "Ready" });
  });

  test("that cannot be removed are retried later and block no iface", async () => {
    const bench = await running(["one"]);
    put(bench);
    bench.podNetwork.failNext("unwireTap", new AppError("PODNET_FAILED", { message: "no" }));
    await bench.resume();
    expect(bench.podNetwork.findLink(NETNS, ORPHAN)).toBeDefined();
    expect(bench.next).toMatchObject({ kind: "after" });
    expect(await hotplug(bench)).toMatchObject({ phase: "Ready" });
    await bench.resume();
    expect(bench.podNetwork.findLink(NETNS, ORPHAN)).toBeDefined();
    bench.nowMs += 3_000;
    await bench.resume();
    expect(bench.podNetwork.findLink(NETNS, ORPHAN)).toBeUndefined();
  });
});

test("a changed specification is no drift, and a changed link is", async () => {
  const bench = await running(["one"]);
  const drifts = (): readonly string[] =>
    bench.events.filter((event) => event.startsWith("InterfaceDrifted"));
  await bench.edit((vmi) => {
    const { devices } = vmi.spec.domain;
    const interfaces = [{ name: "one", bridge: {}, macAddress: MAC, mtu: 1400 }];
    const domain = { ...vmi.spec.domain, devices: { ...devices, interfaces } };
    return { ...vmi, spec: { ...vmi.spec, domain } };
  });
  await bench.resume();
  const view = await bench.podNetwork.observe({ fd: 8, inode: NETNS });
  expect(view.isWired({ ...WIRING, mtu: 1400 })).toBe(true);
  expect(drifts()).toEqual([]);
  bench.podNetwork.takeLink(NETNS, LINKS.bridgeName);
  await bench.resume();
  expect(drifts()).toHaveLength(1);
});
