// SPDX-License-Identifier: Apache-2.0
import { createHash } from "node:crypto";
import type { Attachment, VirtualMachineInstance, VmiStatus } from "@patchbay/api";
import { AppError, namesOf } from "@patchbay/core";
import { parseDomain } from "@patchbay/domain";
import { aVmi } from "@patchbay/testing";
import { describe, expect, test } from "vitest";
import { createBench, NETNS, type Bench } from "../../testing/bench.ts";

const MACS = { one: "02:00:00:00:00:01", two: "02:00:00:00:00:02" } as const;
type Name = keyof typeof MACS;

function podInterfaceOf(name: Name): string {
  return `pod${createHash("sha256").update(name).digest("hex").slice(0, 11)}`;
}

function attachment(name: Name, state: Attachment["state"] = "Attached"): Attachment {
  return {
    name,
    networkName: "default/blue",
    podInterfaceName: podInterfaceOf(name),
    state,
    mac: MACS[name],
  };
}

function aScheduledVmi(names: readonly Name[], status: VmiStatus = {}): VirtualMachineInstance {
  return aVmi({
    nics: names.map((name) => ({ name, mac: MACS[name] })),
    status: {
      phase: "Scheduled",
      activePods: { "pod-uid": "node1" },
      attachments: names.map((name) => attachment(name)),
      ...status,
    },
  });
}

/** What CNI does. */
function putNic(bench: Bench, name: Name): void {
  const link = { name: podInterfaceOf(name), kind: "veth", mac: MACS[name], mtu: 1500, up: true };
  bench.podNetwork.putLink(NETNS, link);
}

function devicesOf(bench: Bench): readonly string[] {
  const parsed = parseDomain(bench.daemon.xmlOf("default_vm1", "live") ?? "<domain/>");
  return parsed.ok ? parsed.domain.nics.map(({ alias }) => alias) : [];
}

function linksOf(bench: Bench, name: Name): readonly boolean[] {
  const { bridgeName, tapName } = namesOf(name, podInterfaceOf(name));
  return [bridgeName, tapName].map((link) => bench.podNetwork.findLink(NETNS, link) !== undefined);
}

async function phases(bench: Bench): Promise<readonly (string | undefined)[]> {
  return ((await bench.vmi()).status?.interfaces ?? []).map(({ hotplug }) => hotplug?.phase);
}

function without(vmi: VirtualMachineInstance, name: Name): VirtualMachineInstance {
  const interfaces = vmi.spec.domain.devices?.interfaces?.map((iface) =>
    iface.name === name ? { ...iface, state: "absent" } : iface,
  );
  return {
    ...vmi,
    spec: {
      ...vmi.spec,
      domain: { ...vmi.spec.domain, devices: { interfaces: interfaces ?? [] } },
    },
  };
}

/** A node whose VM runs with both NICs. */
async function running(): Promise<Bench> {
  const bench = createBench(aScheduledVmi(["one", "two"]));
  putNic(bench, "one");
  putNic(bench, "two");
  await bench.run();
  return bench;
}

describe("a VM starts", () => {
  test("when every iface has an outcome, with the NICs that are there", async () => {
    const bench = createBench(
      aScheduledVmi(["one", "two"], {
        attachments: [
          attachment("one"),
          { ...attachment("two", "Failed"), reason: "NetworkNotFound" },
        ],
      }),
    );
    putNic(bench, "one");
    await bench.run();
    expect(devicesOf(bench)).toEqual(["ua-one"]);
    expect((await bench.vmi()).status?.phase).toBe("Running");
    expect(await phases(bench)).toEqual(["Ready", "PodAttaching"]);
    expect((await bench.vmi()).status?.interfaces?.[1]?.hotplug?.reason).toBe("NetworkNotFound");
  });

  test("not before", async () => {
    const bench = createBench(aScheduledVmi(["one", "two"], { attachments: [attachment("one")] }));
    putNic(bench, "one");
    await bench.run();
    expect(bench.daemon.calls.filter((call) => call.startsWith("startDomain"))).toEqual([]);
  });
});

describe("at rest", () => {
  test("nothing is written and nothing is done", async () => {
    const bench = await running();
    const writes = bench.store.calls.length;
    const { effects } = bench;
    await bench.run();
    expect(bench.store.calls.filter((call) => call.startsWith("patch"))).toHaveLength(
      bench.store.calls.slice(0, writes).filter((call) => call.startsWith("patch")).length,
    );
    expect(bench.effects).toBe(effects);
  });
});

describe("one iface that fails", () => {
  test("blocks no other, and its reason is told", async () => {
    const bench = createBench(aScheduledVmi([]));
    await bench.run();
    await bench.edit((vmi) => ({
      ...vmi,
      spec: aScheduledVmi(["one", "two"]).spec,
      status: { ...vmi.status, attachments: [attachment("one"), attachment("two")] },
    }));
    putNic(bench, "one");
    putNic(bench, "two");
    bench.podNetwork.failNext("wireTap", new AppError("PODNET_FAILED", { message: "no memory" }));
    await bench.run();
    const [one] = (await bench.vmi()).status?.interfaces ?? [];
    expect(await phases(bench)).toContain("Ready");
    expect(one?.hotplug?.phase === "Ready" || one?.hotplug?.reason === "WiringFailed").toBe(true);
  });
});

describe("an unplug", () => {
  test("waits for the guest, asks again after 10 s, and takes the links only then", async () => {
    const bench = await running();
    bench.daemon.unplugPolicy = "lose";
    await bench.edit((vmi) => without(vmi, "one"));
    await bench.run();
    expect(await phases(bench)).toEqual(["Detaching", "Ready"]);
    expect(linksOf(bench, "one")).toEqual([true, true]);
    bench.daemon.unplugPolicy = "grant";
    bench.nowMs += 10_000;
    await bench.run();
    expect(await phases(bench)).toEqual(["PodDetaching", "Ready"]);
    expect(linksOf(bench, "one")).toEqual([false, false]);
    expect(devicesOf(bench)).toEqual(["ua-two"]);
  });

  test("of the same name soon after the last one is asked for at once", async () => {
    const bench = await running();
    const before = await bench.vmi();
    await bench.edit((vmi) => without(vmi, "one"));
    await bench.run();
    await bench.edit((vmi) => ({ ...vmi, spec: before.spec }));
    await bench.run();
    await bench.edit((vmi) => without(vmi, "one"));
    await bench.run();
    expect(await phases(bench)).toEqual(["PodDetaching", "Ready"]);
    expect(bench.daemon.calls.filter((call) => /^detachDevice .*live/.test(call))).toHaveLength(2);
  });

  test("that the guest has not granted is taken back, and the device stays", async () => {
    const bench = await running();
    bench.daemon.unplugPolicy = "hold";
    const before = await bench.vmi();
    await bench.edit((vmi) => without(vmi, "one"));
    await bench.run();
    await bench.edit((vmi) => ({ ...vmi, spec: before.spec }));
    await bench.run();
    expect(await phases(bench)).toEqual(["Ready", "Ready"]);
    expect(devicesOf(bench)).toEqual(["ua-one", "ua-two"]);
  });

  test("never wires again what virt-controller is removing", async () => {
    const bench = await running();
    const before = await bench.vmi();
    await bench.edit((vmi) => without(vmi, "one"));
    await bench.run();
    await bench.edit((vmi) => ({
      ...vmi,
      spec: before.spec,
      status: { ...vmi.status, attachments: [attachment("one", "Removing"), attachment("two")] },
    }));
    await bench.run();
    expect(await phases(bench)).toEqual(["PodDetaching", "Ready"]);
    expect(linksOf(bench, "one")).toEqual([false, false]);
  });
});

async function guestNames(bench: Bench): Promise<readonly (string | undefined)[]> {
  return ((await bench.vmi()).status?.interfaces ?? []).map(({ interfaceName }) => interfaceName);
}

/** A running VM whose guest's agent knows its NICs. */
async function withAgent(): Promise<Bench> {
  const bench = await running();
  bench.daemon.setAgent("default_vm1", [
    { name: "lo", mac: "00:00:00:00:00:00" },
    { name: "enp2s0", mac: MACS.one },
    { name: "enp3s0", mac: MACS.two },
  ]);
  await bench.run();
  await bench.later(1_000);
  return bench;
}

function questions(bench: Bench): number {
  return bench.daemon.calls.filter((call) => call.startsWith("readGuestInterfaces")).length;
}

describe("what the guest calls its NICs", () => {
  test("is unknown without an agent, which is not asked", async () => {
    const bench = await running();
    await bench.later(100_000);
    expect(await guestNames(bench)).toEqual([undefined, undefined]);
    expect(questions(bench)).toBe(0);
  });

  test("is told soon after an agent is there, with its source", async () => {
    const bench = await withAgent();
    expect(await guestNames(bench)).toEqual(["enp2s0", "enp3s0"]);
    const infoSource = "domain, guest-agent, multus-status";
    expect((await bench.vmi()).status?.interfaces?.[0]).toMatchObject({ infoSource });
  });

  test("is asked a few times after a change, and no more at rest", async () => {
    const bench = await withAgent();
    for (const ms of [3_000, 15_000, 60_000, 600_000, 6_000_000]) await bench.later(ms);
    expect(questions(bench)).toBe(4);
    await bench.edit((vmi) => without(vmi, "two"));
    await bench.later(0);
    await bench.later(600_000);
    expect(questions(bench)).toBeGreaterThan(4);
  });

  test("is told anew when the guest changes its mind", async () => {
    const bench = await withAgent();
    bench.daemon.setAgent("default_vm1", [{ name: "wan0", mac: MACS.one.toUpperCase() }]);
    await bench.later(10_000);
    expect(await guestNames(bench)).toEqual(["wan0", "enp3s0"]);
  });

  test("stays when the agent ends, and over a restart of the process", async () => {
    const bench = await withAgent();
    bench.daemon.setAgent("default_vm1", undefined);
    await bench.later(100_000);
    await bench.run();
    expect(await guestNames(bench)).toEqual(["enp2s0", "enp3s0"]);
  });

  test("delays nothing when the agent does not answer", async () => {
    const bench = await withAgent();
    const message = "guest agent is not responding";
    bench.daemon.failNext(
      "readGuestInterfaces",
      new AppError("LIBVIRT_AGENT_UNAVAILABLE", { message }),
    );
    await bench.edit((vmi) => without(vmi, "one"));
    await bench.later(0);
    await bench.later(1_000);
    expect(await phases(bench)).toEqual(["PodDetaching", "Ready"]);
    expect(await guestNames(bench)).toEqual([undefined, "enp3s0"]);
  });
});

/** Every effect of starting, plugging and unplugging is a point where the process dies, before or after it. */
const CRASH_POINTS = Array.from({ length: 12 }, (_unused, index) => [
  { effect: index + 1, after: false },
  { effect: index + 1, after: true },
]).flat();

describe("the process dies and is started again", () => {
  test.each(CRASH_POINTS)("while the VM starts: effect $effect, done: $after", async (point) => {
    const bench = createBench(aScheduledVmi(["one", "two"]));
    putNic(bench, "one");
    putNic(bench, "two");
    bench.crashAt(point.effect, point.after);
    await bench.run();
    expect(devicesOf(bench)).toEqual(["ua-one", "ua-two"]);
    expect(await phases(bench)).toEqual(["Ready", "Ready"]);
  });

  test.each(CRASH_POINTS)(
    "while NICs go out and in: effect $effect, done: $after",
    async (point) => {
      const bench = await running();
      const before = await bench.vmi();
      bench.crashAt(point.effect, point.after);
      await bench.edit((vmi) => without(vmi, "one"));
      await bench.run();
      expect(devicesOf(bench)).toEqual(["ua-two"]);
      expect(linksOf(bench, "one")).toEqual([false, false]);
      expect(await phases(bench)).toEqual(["PodDetaching", "Ready"]);
      bench.crashAt(point.effect, point.after);
      await bench.edit((vmi) => ({ ...vmi, spec: before.spec }));
      await bench.run();
      expect(devicesOf(bench)).toEqual(["ua-two", "ua-one"]);
      expect(await phases(bench)).toEqual(["Ready", "Ready"]);
    },
  );
});
