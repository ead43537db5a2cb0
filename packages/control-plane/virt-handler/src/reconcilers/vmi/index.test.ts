// SPDX-License-Identifier: Apache-2.0
import type { VirtualMachineInstance } from "@patchbay/api";
import { AppError } from "@patchbay/base";
import { describe, expect, test } from "vitest";
import { TRANSIENT_REPORT_DELAY_MS } from "../../rate-limits.ts";
import { createBench, type Bench } from "../../testing/bench.ts";
import {
  aScheduledVmi,
  attachment,
  devicesOf,
  linksOf,
  putNic,
  running,
  without,
} from "../../testing/scene.ts";

async function phases(bench: Bench): Promise<readonly (string | undefined)[]> {
  return ((await bench.vmi()).status?.interfaces ?? []).map(({ hotplug }) => hotplug?.phase);
}

describe("a VM starts", () => {
  test("when every iface has an outcome, with the available NICs", async () => {
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

  test.each(["Pending", "Scheduling"] as const)(
    "without any query while it is %s",
    async (phase) => {
      const bench = createBench(aScheduledVmi(["one"], { phase }));
      putNic(bench, "one");
      await bench.run();
      expect(bench.daemon.calls).toEqual([]);
    },
  );
});

describe("the end of a guest", () => {
  test.each([
    { how: "stopped", phase: "Succeeded", says: "Stopped the guest has shut down" },
    { how: "crashed", phase: "Failed", says: "Stopped the guest has crashed" },
  ] as const)("is reported: $how", async ({ how, phase, says }) => {
    const bench = await running();
    bench.daemon.endDomain("default_vm1", how);
    await bench.resume();
    expect((await bench.vmi()).status?.phase).toBe(phase);
    expect(bench.events[0]).toBe("Started the guest runs");
    expect(bench.events.at(-1)).toContain(says);
  });
});

describe("a VM whose guest cannot be started", () => {
  test.each(["defineDomain", "startDomain"] as const)("reports why: %s", async (call) => {
    const bench = createBench(aScheduledVmi(["one"]));
    putNic(bench, "one");
    const message = "'igb' is not a valid device model name";
    bench.daemon.failNext(call, new AppError("LIBVIRT_REFUSED", { call, message }));
    await bench.run();
    expect(bench.events).toEqual([
      expect.stringMatching(/^SyncFailed the guest cannot be started: .*igb.*model/),
    ]);
    expect((await bench.vmi()).status).toMatchObject({
      phase: "Scheduled",
      blockedReason: { reason: "GuestNotStarted", attempts: 1 },
    });
    bench.nowMs += 60_000;
    await bench.resume();
    expect(await phases(bench)).toEqual(["Ready"]);
    expect((await bench.vmi()).status?.blockedReason).toBeUndefined();
  });
});

describe("the link of a NIC", () => {
  function withState(vmi: VirtualMachineInstance, state: string): VirtualMachineInstance {
    const interfaces = vmi.spec.domain.devices?.interfaces?.map((iface) =>
      iface.name === "one" ? { ...iface, state } : iface,
    );
    const devices = { ...vmi.spec.domain.devices, interfaces: interfaces ?? [] };
    return { ...vmi, spec: { ...vmi.spec, domain: { ...vmi.spec.domain, devices } } };
  }
  const links = async (bench: Bench): Promise<readonly (string | undefined)[]> =>
    ((await bench.vmi()).status?.interfaces ?? []).map(({ linkState }) => linkState);

  test("is set down and up while the guest runs, without other changes to the device", async () => {
    const bench = await running();
    const device = (): string =>
      (bench.daemon.readXml("default_vm1", "live") ?? "").replaceAll(/>\s+</g, "><");
    const before = device();
    await bench.edit((vmi) => withState(vmi, "down"));
    await bench.resume();
    expect(await links(bench)).toEqual(["down", "up"]);
    expect(await phases(bench)).toEqual(["Ready", "Ready"]);
    await bench.edit((vmi) => withState(vmi, "up"));
    await bench.resume();
    expect(await links(bench)).toEqual(["up", "up"]);
    expect(device()).toBe(before);
    expect(bench.daemon.calls.filter((call) => call.startsWith("updateDevice"))).toHaveLength(2);
  });

  test("is reported unchanged with the reason when libvirt rejects the change, and changed later", async () => {
    const bench = await running();
    await bench.edit((vmi) => withState(vmi, "down"));
    bench.daemon.failAlways("updateDevice", new AppError("LIBVIRT_REFUSED", { message: "no" }));
    await bench.resume();
    expect(await links(bench)).toEqual(["up", "up"]);
    const hotplug = async (): Promise<unknown> =>
      (await bench.vmi()).status?.interfaces?.[0]?.hotplug;
    expect(await hotplug()).toMatchObject({ phase: "Ready", reason: "LinkStateFailed" });
    bench.daemon.failAlways("updateDevice", undefined);
    bench.nowMs += 60_000;
    await bench.resume();
    expect(await links(bench)).toEqual(["down", "up"]);
    expect(await hotplug()).not.toHaveProperty("reason");
  });
});

describe("at rest", () => {
  test("writes nothing and does nothing", async () => {
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

describe("a failed iface", () => {
  test("blocks no other, and its reason is reported", async () => {
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
  test("waits for the guest, is requested again after 10 s, and removes the links only then", async () => {
    const bench = await running();
    bench.daemon.unplugPolicy = "lose";
    await bench.edit((vmi) => without(vmi, "one"));
    await bench.resume();
    bench.nowMs += TRANSIENT_REPORT_DELAY_MS;
    await bench.resume();
    expect(await phases(bench)).toEqual(["Detaching", "Ready"]);
    expect(linksOf(bench, "one")).toEqual([true, true]);
    bench.daemon.unplugPolicy = "grant";
    bench.nowMs += 10_000;
    await bench.run();
    expect(await phases(bench)).toEqual(["PodDetaching", "Ready"]);
    expect(linksOf(bench, "one")).toEqual([false, false]);
    expect(devicesOf(bench)).toEqual(["ua-two"]);
  });

  test("of a NIC with a recently unplugged name is requested at once", async () => {
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

  test("is canceled if the guest has not granted it, and the device stays", async () => {
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

  test("is not undone by rewiring links that virt-controller is removing", async () => {
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

/** The process crashes before or after each effect of starting, plugging and unplugging. */
const CRASH_POINTS = Array.from({ length: 12 }, (_unused, index) => [
  { effect: index + 1, after: false },
  { effect: index + 1, after: true },
]).flat();

describe("the process crashes and restarts", () => {
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
    "while NICs are unplugged and plugged: effect $effect, done: $after",
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
