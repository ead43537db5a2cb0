// SPDX-License-Identifier: Apache-2.0
import type { IfaceStatus } from "@patchbay/api";
import { AppError, type ErrorCode } from "@patchbay/base";
import type { UnplugPolicy } from "@patchbay/libvirt/testing";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Bench } from "../../testing/bench.ts";
import {
  UNPLUG_RETRY_INTERVAL_MS,
  aScheduledVmi,
  attachment,
  devicesOf,
  linksOf,
  putNic,
  running,
  without,
  type Name,
} from "../../testing/scene.ts";

const SECOND_MS = 1_000;

async function hotplugOf(bench: Bench, name: Name): Promise<IfaceStatus["hotplug"]> {
  const { interfaces } = (await bench.vmi()).status ?? {};
  return interfaces?.find((entry) => entry.name === name)?.hotplug;
}

function callsOf(bench: Bench, pattern: RegExp): number {
  return bench.daemon.calls.filter((call) => pattern.test(call)).length;
}

const ASKED = /^detachDevice .* live/;

/** A running VM that is to get both NICs; the process goes on. */
async function plugging(): Promise<Bench> {
  const bench = await running([]);
  const { spec } = aScheduledVmi(["one", "two"]);
  const attachments = [attachment("one"), attachment("two")];
  await bench.edit((vmi) => ({ ...vmi, spec, status: { ...vmi.status, attachments } }));
  putNic(bench, "one");
  putNic(bench, "two");
  return bench;
}

/** A running VM whose first NIC is to go. */
async function unplugging(policy: UnplugPolicy = "grant"): Promise<Bench> {
  const bench = await running();
  bench.daemon.unplugPolicy = policy;
  await bench.edit((vmi) => without(vmi, "one"));
  return bench;
}

interface Row {
  readonly code: ErrorCode;
  readonly attach: string;
  readonly detach: string;
}

const LOCAL: readonly Row[] = [
  { code: "LIBVIRT_NO_DOMAIN", attach: "DomainMissing", detach: "DomainMissing" },
  { code: "LIBVIRT_NO_FREE_PORT", attach: "NoFreePciePort", detach: "NoFreePciePort" },
  { code: "LIBVIRT_ADDRESS_REFUSED", attach: "PciAddressInUse", detach: "PciAddressInUse" },
  { code: "LIBVIRT_TAP_REFUSED", attach: "TapRefused", detach: "TapRefused" },
  { code: "LIBVIRT_NOT_RUNNING", attach: "DomainNotRunning", detach: "DomainNotRunning" },
  { code: "LIBVIRT_UNSUPPORTED", attach: "DeviceUnsupported", detach: "DeviceUnsupported" },
  { code: "LIBVIRT_BUSY", attach: "DomainBusy", detach: "DomainBusy" },
  { code: "LIBVIRT_MIGRATING", attach: "WaitingForMigration", detach: "WaitingForMigration" },
  { code: "LIBVIRT_REFUSED", attach: "AttachFailed", detach: "DetachFailed" },
];
const LOST: readonly Row[] = [
  { code: "LIBVIRT_TIMED_OUT", attach: "LibvirtTimedOut", detach: "LibvirtTimedOut" },
  { code: "LIBVIRT_CONNECTION_LOST", attach: "LauncherUnreachable", detach: "LauncherUnreachable" },
];

describe("a plug that libvirt rejects", () => {
  test.each([...LOCAL, ...LOST])(
    "with $code reports $attach once, backs off, and succeeds later",
    async ({ code, attach }) => {
      const bench = await plugging();
      bench.daemon.failAlways("attachDevice", new AppError(code, { message: "no" }));
      await bench.resume();
      const tries = callsOf(bench, /^attachDevice .* ua-one/);
      expect(await hotplugOf(bench, "one")).toMatchObject({ reason: attach, attempts: 1 });
      expect(
        bench.events.filter((event) => event.startsWith(`${attach} interface one`)),
      ).toHaveLength(1);
      bench.nowMs += SECOND_MS / 2;
      await bench.resume();
      expect(tries).toBe(1);
      expect(callsOf(bench, /^attachDevice .* ua-one/)).toBe(tries);
      bench.daemon.failAlways("attachDevice", undefined);
      bench.nowMs += 60 * SECOND_MS;
      await bench.resume();
      expect(devicesOf(bench)).toEqual(["ua-one", "ua-two"]);
      expect((await hotplugOf(bench, "one"))?.reason).toBeUndefined();
    },
  );

  test("because the domain is busy is not tried for other NICs, which would wait as long", async () => {
    const bench = await plugging();
    bench.daemon.failAlways("attachDevice", new AppError("LIBVIRT_BUSY", { message: "no" }));
    await bench.resume();
    expect(callsOf(bench, /^attachDevice/)).toBe(1);
    expect(await hotplugOf(bench, "two")).toMatchObject({ reason: "DomainBusy", attempts: 1 });
    expect(linksOf(bench, "two")).toEqual([true, true]);
  });

  test.each(LOST)("with $code is reported for the other NICs too", async ({ code, attach }) => {
    const bench = await plugging();
    bench.daemon.failAlways("attachDevice", new AppError(code, {}));
    expect(await bench.resume()).toMatchObject([{ code }]);
    expect(callsOf(bench, /^attachDevice/)).toBe(1);
    expect(await hotplugOf(bench, "two")).toMatchObject({ reason: attach, attempts: 1 });
  });

  test("retains its reason while another step ends the connection", async () => {
    const bench = await plugging();
    const both = await bench.vmi();
    await bench.edit((vmi) => without(vmi, "two"));
    bench.daemon.failAlways("attachDevice", new AppError("LIBVIRT_TAP_REFUSED", {}));
    await bench.resume();
    await bench.edit((vmi) => ({ ...vmi, spec: both.spec }));
    bench.daemon.failAlways("attachDevice", new AppError("LIBVIRT_CONNECTION_LOST", {}));
    await bench.resume();
    expect(await hotplugOf(bench, "one")).toMatchObject({ reason: "TapRefused", attempts: 1 });
    expect(await hotplugOf(bench, "two")).toMatchObject({ reason: "LauncherUnreachable" });
  });

  test("because no port is free is retried at once when another NIC was unplugged", async () => {
    const bench = await plugging();
    bench.daemon.failNext("attachDevice", new AppError("LIBVIRT_NO_FREE_PORT", {}));
    await bench.resume();
    // The second NIC was added after the first had failed, so the inputs differ.
    expect(devicesOf(bench)).toEqual(["ua-two", "ua-one"]);
  });
});

describe("an unplug that libvirt rejects", () => {
  test.each([...LOCAL, ...LOST])(
    "with $code reports $detach, retains the links, and succeeds later",
    async ({ code, detach }) => {
      const bench = await unplugging();
      bench.daemon.failAlways("detachDevice", new AppError(code, { message: "no" }));
      await bench.resume();
      expect(callsOf(bench, /^detachDevice/)).toBe(1);
      expect(await hotplugOf(bench, "one")).toMatchObject({
        phase: "Detaching",
        reason: detach,
        attempts: 1,
      });
      expect(linksOf(bench, "one")).toEqual([true, true]);
      bench.daemon.failAlways("detachDevice", undefined);
      bench.nowMs += 60 * SECOND_MS;
      await bench.resume();
      expect(devicesOf(bench)).toEqual(["ua-two"]);
    },
  );

  test.each(["config", "live"] as const)(
    "because the domain is busy counts as no request, and is repeated as soon as that ends (%s)",
    async (target) => {
      const bench = await unplugging("hold");
      const busy = new AppError("LIBVIRT_BUSY", { message: "no" });
      bench.daemon.failAlways("detachDevice", busy, target);
      await bench.resume();
      expect(await hotplugOf(bench, "one")).toMatchObject({ reason: "DomainBusy" });
      const before = callsOf(bench, ASKED);
      bench.daemon.failAlways("detachDevice", undefined);
      bench.nowMs += 2 * SECOND_MS;
      await bench.resume();
      expect(callsOf(bench, ASKED)).toBe(before + 1);
      expect(await hotplugOf(bench, "one")).toMatchObject({ reason: "WaitingForGuest" });
    },
  );

  test("because an earlier one is pending counts, and is repeated after 10 s", async () => {
    const bench = await unplugging("hold");
    const pending = new AppError("LIBVIRT_UNPLUG_PENDING", { device: "ua-one" });
    bench.daemon.failAlways("detachDevice", pending, "live");
    await bench.resume();
    bench.nowMs += SECOND_MS;
    await bench.resume();
    expect(await hotplugOf(bench, "one")).toMatchObject({ reason: "WaitingForGuest", attempts: 1 });
    bench.nowMs += UNPLUG_RETRY_INTERVAL_MS - SECOND_MS - 1;
    await bench.resume();
    expect(callsOf(bench, ASKED)).toBe(1);
    bench.nowMs += 1;
    await bench.resume();
    expect(callsOf(bench, ASKED)).toBe(2);
    expect(await hotplugOf(bench, "one")).toMatchObject({ reason: "WaitingForGuest", attempts: 2 });
  });

  test("for an unknown reason may have reached the guest, and is requested again after 10 s", async () => {
    const bench = await unplugging("hold");
    const late = new AppError("LIBVIRT_TIMED_OUT", { call: "virDomainDetachDeviceAlias" });
    bench.daemon.failAlways("detachDevice", late, "live");
    await bench.resume();
    bench.daemon.failAlways("detachDevice", undefined);
    bench.nowMs += UNPLUG_RETRY_INTERVAL_MS - 1;
    await bench.resume();
    expect(callsOf(bench, ASKED)).toBe(1);
  });
});

describe("an unavailable libvirt", () => {
  test("is reported for ifaces to plug or unplug, and both are done when it is back", async () => {
    const bench = await unplugging();
    bench.daemon.stop();
    await bench.resume();
    expect(await hotplugOf(bench, "one")).toMatchObject({
      phase: "Detaching",
      reason: "LauncherUnreachable",
    });
    expect(await hotplugOf(bench, "two")).toEqual({
      type: "Plug",
      phase: "Ready",
      since: expect.any(String) as string,
    });
    bench.daemon.start();
    bench.nowMs += SECOND_MS;
    await bench.resume();
    expect(await hotplugOf(bench, "one")).toMatchObject({ phase: "PodDetaching" });
  });

  test("is reported for an iface that was requested meanwhile", async () => {
    const bench = await plugging();
    bench.daemon.stop();
    await bench.resume();
    expect(await hotplugOf(bench, "one")).toMatchObject({
      phase: "Wiring",
      reason: "LauncherUnreachable",
    });
    bench.daemon.start();
    bench.nowMs += SECOND_MS;
    await bench.resume();
    expect(devicesOf(bench)).toEqual(["ua-one", "ua-two"]);
  });
});

describe("a guest that does not release a NIC", () => {
  test.each(["lose", "hold", "refuse"] as const)(
    "and does %s is requested with delays that grow to a minute, without end",
    async (policy) => {
      const bench = await unplugging(policy);
      const askedAt: number[] = [];
      const startMs = bench.nowMs;
      for (; bench.nowMs < startMs + 205 * SECOND_MS; bench.nowMs += SECOND_MS) {
        const before = callsOf(bench, ASKED);
        await bench.resume();
        if (callsOf(bench, ASKED) > before) askedAt.push((bench.nowMs - startMs) / SECOND_MS);
      }
      expect(askedAt).toEqual([0, 10, 20, 40, 80, 140, 200]);
      expect(await hotplugOf(bench, "one")).toMatchObject({ reason: "GuestRefused", attempts: 7 });
      expect(bench.events.filter((event) => event.startsWith("GuestRefused"))).toHaveLength(1);
      expect(linksOf(bench, "one")).toEqual([true, true]);
    },
  );

  test("and refuses is reported at once, and requested again later nevertheless", async () => {
    const bench = await unplugging("refuse");
    await bench.resume();
    const told = await hotplugOf(bench, "one");
    expect(told).toMatchObject({ phase: "Detaching", reason: "GuestRefused", attempts: 1 });
    expect(told?.message).toMatch(/refused to release the device after 1 request since /);
    bench.daemon.unplugPolicy = "grant";
    bench.nowMs += UNPLUG_RETRY_INTERVAL_MS - 1;
    await bench.resume();
    expect(callsOf(bench, ASKED)).toBe(1);
    bench.nowMs += 1;
    await bench.resume();
    expect(devicesOf(bench)).toEqual(["ua-two"]);
  });

  test("is requested again by a new process, which continues the count", async () => {
    const bench = await unplugging("lose");
    for (let asked = 1; asked <= 3; asked += 1) {
      await bench.resume();
      bench.nowMs += UNPLUG_RETRY_INTERVAL_MS;
    }
    bench.nowMs -= 7 * SECOND_MS;
    await bench.run();
    expect(callsOf(bench, ASKED)).toBe(4);
    expect(await hotplugOf(bench, "one")).toMatchObject({ reason: "GuestRefused", attempts: 4 });
  });

  test("is requested at most once in 10 s by one process, until the NIC is unplugged", async () => {
    const happening = fc.record({
      waitMs: fc.integer({ min: 0, max: 15_000 }),
      policy: fc.constantFrom<UnplugPolicy>("lose", "hold", "refuse"),
      busy: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(happening, { maxLength: 8 }), async (story) => {
        const bench = await unplugging("lose");
        let lastMs = -Infinity;
        const lookOn = async (): Promise<void> => {
          const before = callsOf(bench, ASKED);
          await bench.resume();
          if (callsOf(bench, ASKED) === before) return;
          expect(callsOf(bench, ASKED)).toBe(before + 1);
          expect(bench.nowMs - lastMs).toBeGreaterThanOrEqual(UNPLUG_RETRY_INTERVAL_MS);
          lastMs = bench.nowMs;
        };
        for (const { waitMs, policy, busy } of story) {
          bench.nowMs += waitMs;
          bench.daemon.unplugPolicy = policy;
          const error = busy ? new AppError("LIBVIRT_BUSY", {}) : undefined;
          bench.daemon.failAlways("detachDevice", error);
          await lookOn();
          expect(linksOf(bench, "one")).toEqual([true, true]);
        }
        bench.daemon.unplugPolicy = "grant";
        bench.daemon.failAlways("detachDevice", undefined);
        bench.nowMs += 60 * SECOND_MS;
        await lookOn();
        expect(devicesOf(bench)).toEqual(["ua-two"]);
        expect(linksOf(bench, "one")).toEqual([false, false]);
      }),
      { numRuns: 20 },
    );
  });
});
