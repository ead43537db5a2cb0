// SPDX-License-Identifier: Apache-2.0
// Unplug from a guest that is paused, boots, has panicked or has no driver: soon, or as soon as the guest can.
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { addInterface, CHANGE_MS, expectGone, ifaceStatus, machine } from "../machine.ts";
import { told, type Seen } from "../story.ts";
import { hasDevice, virsh } from "../virsh.ts";
import { AGAIN_MS, GuestWithNic, NIC } from "./guest-with-nic.ts";
import { panic, PANICKED, type PanicStory } from "./panic.ts";

const VM = "moody";
const BOOT_MS = 60_000;
/** On a busy machine a guest boots so long that several requests are lost; later ones follow each minute. */
const BOOT_AND_ASK_MS = BOOT_MS + 120_000;

let subject: GuestWithNic;
/** Mostly waiting, so it runs in parallel. */
let panicked: Promise<Seen<PanicStory>>;

beforeAll(async () => {
  subject = await GuestWithNic.boot(VM, { network: "blue", bridge: "pbt-blue" });
  panicked = told(panic());
});

afterAll(async () => {
  await panicked;
  machine.deleteIfPresent("vm", VM, PANICKED);
});

describe("a paused guest", () => {
  test("gets a NIC and sees it when it is resumed", async () => {
    const since = subject.guest.position();
    virsh(VM, "suspend");
    await subject.plug();
    expect(subject.guest.lines().slice(since)).toEqual([]);
    virsh(VM, "resume");
    await subject.guest.waitForLine(/nic added/, { timeoutMs: CHANGE_MS, since });
  });

  test("retains a NIC with all its parts until it is resumed", async () => {
    const before = subject.belongings();
    virsh(VM, "suspend");
    subject.unplug();
    await subject.expectWait(({ attempts = 0 }) => attempts > 1, 2 * AGAIN_MS);
    expect(subject.faults()).toEqual([]);
    expect(subject.hotplug()).toMatchObject({
      reason: "WaitingForGuest",
      message: expect.stringContaining("paused") as string,
    });
    expect(subject.belongings()).toEqual(before);
    const since = subject.guest.position();
    virsh(VM, "resume");
    await subject.guest.waitForLine(/nic removed/, { timeoutMs: CHANGE_MS, since });
    await expectGone(VM, NIC);
    expect(subject.links()).toEqual(subject.linksAtRest);
  });

  test("releases a NIC that it has never seen", async () => {
    virsh(VM, "suspend");
    await subject.plug();
    subject.unplug();
    await subject.expectWait(({ reason }) => reason === "WaitingForGuest", CHANGE_MS);
    virsh(VM, "resume");
    await expectGone(VM, NIC);
    expect(hasDevice(VM, NIC)).toBe(false);
  });
});

describe("a running guest", () => {
  test("releases a NIC that was just plugged", async () => {
    addInterface(VM, { name: NIC, network: "blue" });
    await eventually(() => hasDevice(VM, NIC), { withinMs: CHANGE_MS });
    subject.unplug();
    await expectGone(VM, NIC);
    expect(subject.links()).toEqual(subject.linksAtRest);
  });

  test("releases a NIC without a driver", async () => {
    expect(await subject.guest.run("driver off")).toMatchObject({ code: 0 });
    const since = subject.guest.position();
    await subject.plug();
    subject.unplug();
    await expectGone(VM, NIC);
    expect(subject.guest.lines().slice(since).join("\n")).not.toContain("nic added");
    expect(await subject.guest.run("driver on")).toMatchObject({ code: 0 });
  });
});

describe("a booting guest", () => {
  test(
    "releases a NIC although firmware may have lost the request",
    { timeout: 2 * BOOT_AND_ASK_MS },
    async () => {
      await subject.plug();
      const since = subject.guest.position();
      const before = subject.requestsLogged();
      virsh(VM, "reset");
      subject.unplug();
      const told = await eventually(
        () => {
          const status = ifaceStatus(VM, NIC);
          const requests = subject.requestsLogged() - before;
          // It may be gone before its unplug was observed: virt-handler's log has the actions.
          if (status === undefined) return { reason: "WaitingForGuest", attempts: requests };
          if (status.hotplug?.phase === "Detaching") return status.hotplug;
          throw new Error(JSON.stringify(status.hotplug));
        },
        { withinMs: CHANGE_MS },
      );
      expect(told).toMatchObject({ reason: "WaitingForGuest", attempts: 1 });
      const seen = new Set<string>();
      await eventually(
        () => {
          for (const fault of subject.faults()) seen.add(fault);
          return ifaceStatus(VM, NIC) === undefined;
        },
        { withinMs: BOOT_AND_ASK_MS },
      );
      expect([...seen]).toEqual([]);
      expect(subject.requestsLogged()).toBeGreaterThan(before);
      await subject.guest.waitForLine(/guest ready/, { timeoutMs: BOOT_MS, since });
      expect(subject.links()).toEqual(subject.linksAtRest);
    },
  );
});

describe("a panicked guest", () => {
  test("retains a NIC, reported once with the next step, until it is reset", async () => {
    const {
      faults,
      refused,
      whenRefused: whenRejected,
      whenGone: whenDeleted,
    } = (await panicked)();
    expect(faults).toEqual([]);
    expect(refused).toMatchObject({
      attempts: 3,
      message: expect.stringMatching(/after 3 requests.*reset it/) as string,
    });
    expect(whenRejected.belongings).toEqual(whenRejected.belongingsBefore);
    expect(whenRejected.events).toBe(1);
    expect(whenDeleted).toEqual({
      links: whenDeleted.linksAtRest,
      linksAtRest: whenDeleted.linksAtRest,
      events: 1,
    });
  });
});
