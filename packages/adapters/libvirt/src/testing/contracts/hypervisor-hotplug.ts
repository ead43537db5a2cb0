// SPDX-License-Identifier: Apache-2.0
// Contract of Hypervisor for hotplug, for the fake and QEMU.

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { DeviceTarget, HypervisorConnection } from "@patchbay/core/interfaces";
import { EventLog, type HypervisorBench } from "./hypervisor.ts";

/** A daemon whose domains accept NICs, and whose guests complete an unplug only on request. */
export interface HotplugBench extends HypervisorBench {
  /** Returns the XML of a NIC, whose MAC and tap derive from `number` (1 to 3). */
  nicXml(alias: string, number: number, link?: "down"): string;
  /** Makes the guest complete the requested unplugs. */
  grantUnplugs(name: string): Promise<void>;
  /** Describes the guest's devices in QEMU and in the daemon, for errors. */
  describeGuest(name: string): Promise<string>;
  /** Kills the process of a guest. */
  killGuest(name: string): Promise<void>;
  stopDaemon(): Promise<void>;
}

/** Defines the tests for NICs of a running domain. */
export function describeHotplugContract(name: string, make: () => Promise<HotplugBench>): void {
  describe(`Hypervisor hotplug: ${name}`, () => {
    let bench: HotplugBench;
    let vm: HypervisorConnection;
    let events: EventLog;
    beforeEach(async () => {
      bench = await make();
      vm = await bench.hypervisor.open(bench.address);
      events = new EventLog(vm, () => bench.describeGuest("vm1"));
      await vm.defineDomain(bench.domainXml("vm1"));
      await vm.startDomain("vm1");
    });
    afterEach(async () => {
      await bench.close();
    });

    test("a guest that is started paused waits to be resumed", async () => {
      await vm.destroyDomain("vm1");
      await vm.startDomain("vm1", "paused");
      await vm.startDomain("vm1");
      expect((await vm.findDomain("vm1"))?.state).toBe("paused");
      await vm.resumeDomain("vm1");
      expect((await vm.findDomain("vm1"))?.state).toBe("running");
    });

    test("resets and reboots a guest, which stays running", async () => {
      await vm.resetDomain("vm1");
      await vm.rebootDomain("vm1");
      expect((await vm.findDomain("vm1"))?.state).toBe("running");
    });

    test("plugs a NIC into the running guest only, with its own address", async () => {
      await vm.attachDevice("vm1", bench.nicXml("ua-a", 1), "live");
      await events.next("deviceAdded ua-a");
      const live = await vm.readDomainXml("vm1", "live");
      expect(live).toMatch(/ua-a[\s\S]*<address type=['"]pci['"]/);
      expect(await vm.readDomainXml("vm1", "config")).not.toContain("ua-a");
    });

    test("adds a NIC to the definition only, and removes it", async () => {
      await vm.attachDevice("vm1", bench.nicXml("ua-a", 1), "config");
      expect(await vm.readDomainXml("vm1", "config")).toContain("ua-a");
      expect(await vm.readDomainXml("vm1", "live")).not.toContain("ua-a");
      await vm.detachDevice("vm1", "ua-a", "config");
      expect(await vm.readDomainXml("vm1", "config")).not.toContain("ua-a");
    });

    test("plugs a NIC into both at once, with the same address", async () => {
      await vm.attachDevice("vm1", bench.nicXml("ua-a", 1), "both");
      await events.next("deviceAdded ua-a");
      const placeIn = async (target: DeviceTarget): Promise<string | undefined> => {
        const xml = await vm.readDomainXml("vm1", target);
        return /ua-a[\s\S]*?<address type=['"]pci['"]([^>]*)>/.exec(xml)?.[1];
      };
      expect(await placeIn("live")).toMatch(/bus=/);
      expect((await placeIn("config"))?.replaceAll('"', "'")).toBe(
        (await placeIn("live"))?.replaceAll('"', "'"),
      );
    });

    test.each(["live", "config"] as const)(
      "plugs a NIC that one of both already has into neither: %s",
      async (isPlugged) => {
        const other = isPlugged === "live" ? "config" : "live";
        await vm.attachDevice("vm1", bench.nicXml("ua-a", 1), isPlugged);
        const again = vm.attachDevice("vm1", bench.nicXml("ua-a", 1), "both");
        await expect(again).rejects.toMatchObject({ code: "LIBVIRT_DEVICE_EXISTS" });
        expect(await vm.readDomainXml("vm1", other)).not.toContain("ua-a");
      },
    );

    test("an unplug is requested first, and completes when the guest grants it", async () => {
      await vm.attachDevice("vm1", bench.nicXml("ua-a", 1), "live");
      await vm.detachDevice("vm1", "ua-a", "live");
      expect(await vm.readDomainXml("vm1", "live")).toContain("ua-a");
      await bench.grantUnplugs("vm1");
      await events.next("deviceRemoved ua-a");
      expect(await vm.readDomainXml("vm1", "live")).not.toContain("ua-a");
    });

    test("a guest whose process dies is crashed, and can be started again", async () => {
      await bench.killGuest("vm1");
      await events.next("stopped");
      expect((await vm.findDomain("vm1"))?.state).toBe("crashed");
      await vm.startDomain("vm1");
      expect((await vm.findDomain("vm1"))?.state).toBe("running");
      await vm.destroyDomain("vm1");
      expect((await vm.findDomain("vm1"))?.state).toBe("shutoff");
    });

    test("an unplug can be requested again while the guest holds the NIC", async () => {
      await vm.attachDevice("vm1", bench.nicXml("ua-a", 1), "live");
      await vm.detachDevice("vm1", "ua-a", "live");
      await vm.detachDevice("vm1", "ua-a", "live");
      await bench.grantUnplugs("vm1");
      await events.next("deviceRemoved ua-a");
    });

    test("rejects a NIC without a free port; an unplug frees the port again", async () => {
      await vm.attachDevice("vm1", bench.nicXml("ua-a", 1), "live");
      await vm.attachDevice("vm1", bench.nicXml("ua-b", 2), "live");
      const third = bench.nicXml("ua-c", 3);
      await expect(vm.attachDevice("vm1", third, "live")).rejects.toMatchObject({
        code: "LIBVIRT_NO_FREE_PORT",
        details: { device: "ua-c" },
      });
      await vm.detachDevice("vm1", "ua-a", "live");
      await bench.grantUnplugs("vm1");
      await events.next("deviceRemoved ua-a");
      await vm.attachDevice("vm1", third, "live");
      expect(await vm.readDomainXml("vm1", "live")).toMatch(/ua-b[\s\S]*ua-c|ua-c[\s\S]*ua-b/);
    });

    test.each(["live", "config"] as const)("reports a missing NIC: %s", async (target) => {
      await expect(vm.detachDevice("vm1", "ua-none", target)).rejects.toMatchObject({
        code: "LIBVIRT_DEVICE_MISSING",
      });
    });

    test("reports a NIC that only the guest has as missing in the definition", async () => {
      await vm.attachDevice("vm1", bench.nicXml("ua-a", 1), "live");
      await expect(vm.detachDevice("vm1", "ua-a", "config")).rejects.toMatchObject({
        code: "LIBVIRT_DEVICE_MISSING",
      });
      expect(await vm.readDomainXml("vm1", "live")).toContain("ua-a");
    });

    test("rejects a second NIC with the same alias", async () => {
      await vm.attachDevice("vm1", bench.nicXml("ua-a", 1), "live");
      await expect(vm.attachDevice("vm1", bench.nicXml("ua-a", 2), "live")).rejects.toMatchObject({
        code: "LIBVIRT_DEVICE_EXISTS",
        details: { device: "ua-a" },
      });
    });

    test("rejects a live change of a domain that is off", async () => {
      await vm.destroyDomain("vm1");
      await expect(vm.attachDevice("vm1", bench.nicXml("ua-a", 1), "live")).rejects.toMatchObject({
        code: "LIBVIRT_NOT_RUNNING",
      });
    });

    test("sets the carrier of a NIC down while the NIC is in use", async () => {
      await vm.attachDevice("vm1", bench.nicXml("ua-a", 1), "live");
      await vm.updateDevice("vm1", bench.nicXml("ua-a", 1, "down"), "live");
      expect(await vm.readDomainXml("vm1", "live")).toMatch(/<link state=['"]down['"]/);
    });

    test("every connection receives the events of a NIC", async () => {
      const other = await bench.hypervisor.open(bench.address);
      const otherEvents = new EventLog(other);
      await vm.attachDevice("vm1", bench.nicXml("ua-a", 1), "live");
      await otherEvents.next("deviceAdded ua-a");
      expect(otherEvents.received).toEqual(["deviceAdded ua-a"]);
    });

    test("connections end with their daemon", async () => {
      await bench.stopDaemon();
      await expect(vm.closed).resolves.toMatchObject({ by: "daemon" });
      await expect(vm.findDomain("vm1")).rejects.toMatchObject({
        code: "LIBVIRT_CONNECTION_LOST",
      });
    });
  });
}
