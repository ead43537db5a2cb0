// SPDX-License-Identifier: Apache-2.0
// A NIC goes out of a guest that is paused, boots, has panicked or has no driver: soon, or as soon as the guest can.
import type { IfaceStatus } from "@patchbay/api";
import { eventually, vmManifest, type GuestConsole } from "@patchbay/support";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { leaseFiles, linksOf } from "../inventory.ts";
import {
  addInterface,
  CHANGE_MS,
  expectGone,
  expectReady,
  ifaceStatus,
  machine,
  removeInterface,
} from "../machine.ts";
import { hasDevice, virsh } from "../virsh.ts";

const VM = "moody";
const NIC = "nic";
const BOOT_MS = 60_000;
/** NIC of the pod, bridge, tap. */
const LINKS = 3;
/** The guest is asked again no sooner. */
const AGAIN_MS = 10_000;
/** Clocks of status have whole seconds. */
const CLOCK_MS = 1_000;

type Hotplug = NonNullable<IfaceStatus["hotplug"]>;

let guest: GuestConsole;
let podUid = "";

function hotplug(): Hotplug | undefined {
  return ifaceStatus(VM, NIC)?.hotplug;
}

async function plug(): Promise<void> {
  addInterface(VM, { name: NIC, network: "blue" });
  await expectReady(VM, NIC);
}

/** Everything that an iface has outside the guest. */
function belongings(): unknown {
  return {
    device: hasDevice(VM, NIC),
    links: linksOf(podUid),
    leases: leaseFiles("pbt-blue"),
    annotation: machine.findPod(VM)?.metadata.annotations?.["k8s.v1.cni.cncf.io/networks"],
  };
}

/** Waits for a report on the unplug. */
async function expectWait(is: (found: Hotplug) => boolean, withinMs: number): Promise<Hotplug> {
  return eventually(
    () => {
      const found = hotplug();
      return found?.phase === "Detaching" && is(found) ? found : undefined;
    },
    { withinMs },
  );
}

/** What is out of order: a tap that went before its device, requests less than 10 s apart. */
function faults(): readonly string[] {
  // Looked at in this order: a device that is there after a link has gone was there before.
  const isBare = linksOf(podUid).length < linksAtRest.length + LINKS && hasDevice(VM, NIC);
  const { phase, attempts = 0, since = "" } = hotplug() ?? {};
  const elapsedMs = Date.now() - Date.parse(since) + CLOCK_MS;
  const isRushed = phase === "Detaching" && attempts > 1 + Math.floor(elapsedMs / AGAIN_MS);
  return [
    ...(isBare ? ["a link went before the device"] : []),
    ...(isRushed ? [`asked ${String(attempts)} times in ${String(elapsedMs)} ms`] : []),
  ];
}

let linksAtRest: readonly string[] = [];

beforeAll(async () => {
  machine.apply(vmManifest({ name: VM }));
  await machine.booted(VM);
  guest = machine.console(VM);
  podUid = machine.findPod(VM)?.metadata.uid ?? "";
  linksAtRest = linksOf(podUid);
});

afterAll(() => {
  machine.kubectl("delete", "vm", VM, "--wait=true");
});

describe("a guest that is paused", () => {
  test("gets a NIC, and sees it when it is resumed", async () => {
    const since = guest.position();
    virsh(VM, "suspend");
    await plug();
    expect(guest.lines().slice(since)).toEqual([]);
    virsh(VM, "resume");
    await guest.waitForLine(/nic added/, { timeoutMs: CHANGE_MS, since });
  });

  test("keeps a NIC with all that belongs to it until it is resumed", async () => {
    const before = belongings();
    virsh(VM, "suspend");
    removeInterface(VM, NIC);
    await expectWait(({ attempts = 0 }) => attempts > 1, 2 * AGAIN_MS);
    expect(faults()).toEqual([]);
    expect(hotplug()).toMatchObject({
      reason: "WaitingForGuest",
      message: expect.stringContaining("paused") as string,
    });
    expect(belongings()).toEqual(before);
    const since = guest.position();
    virsh(VM, "resume");
    await guest.waitForLine(/nic removed/, { timeoutMs: CHANGE_MS, since });
    await expectGone(VM, NIC);
    expect(linksOf(podUid)).toEqual(linksAtRest);
  });

  test("lets go of a NIC that it has never seen", async () => {
    virsh(VM, "suspend");
    await plug();
    removeInterface(VM, NIC);
    await expectWait(({ reason }) => reason === "WaitingForGuest", CHANGE_MS);
    virsh(VM, "resume");
    await expectGone(VM, NIC);
    expect(hasDevice(VM, NIC)).toBe(false);
  });
});

describe("a guest that runs", () => {
  test("lets go of a NIC that has just come", async () => {
    addInterface(VM, { name: NIC, network: "blue" });
    await eventually(() => hasDevice(VM, NIC), { withinMs: CHANGE_MS });
    removeInterface(VM, NIC);
    await expectGone(VM, NIC);
    expect(linksOf(podUid)).toEqual(linksAtRest);
  });

  test("lets go of a NIC that it has no driver for", async () => {
    expect(await guest.run("driver off")).toMatchObject({ code: 0 });
    const since = guest.position();
    await plug();
    removeInterface(VM, NIC);
    await expectGone(VM, NIC);
    expect(guest.lines().slice(since).join("\n")).not.toContain("nic added");
    expect(await guest.run("driver on")).toMatchObject({ code: 0 });
  });
});

describe("a guest that boots", () => {
  test("lets go of a NIC though firmware may have lost the request", async () => {
    await plug();
    const since = guest.position();
    virsh(VM, "reset");
    removeInterface(VM, NIC);
    const told = await expectWait(() => true, CHANGE_MS);
    expect(told).toMatchObject({ reason: "WaitingForGuest", attempts: 1 });
    const seen = new Set<string>();
    await eventually(
      () => {
        for (const fault of faults()) seen.add(fault);
        return ifaceStatus(VM, NIC) === undefined;
      },
      { withinMs: BOOT_MS },
    );
    expect([...seen]).toEqual([]);
    await guest.waitForLine(/guest ready/, { timeoutMs: BOOT_MS, since });
    expect(linksOf(podUid)).toEqual(linksAtRest);
  });
});

describe("a guest that has panicked", () => {
  /** Events on the VMI with a reason, as often as each came. */
  function refusals(): readonly { readonly message: string; readonly count: number }[] {
    const text = machine.kubectl("get", "events", "-o", "json");
    // Events of the embedded server have these fields.
    const { items } = JSON.parse(text) as {
      readonly items: readonly {
        readonly reason: string;
        readonly message: string;
        readonly count: number;
        readonly involvedObject: { readonly name: string };
      }[];
    };
    return items
      .filter(
        ({ reason, involvedObject }) => reason === "GuestRefused" && involvedObject.name === VM,
      )
      .map(({ message, count }) => ({ message, count }));
  }

  function count(): number {
    return refusals().reduce((sum, refusal) => sum + refusal.count, 0);
  }

  test("keeps a NIC, which is told once with the way out, until it is reset", async () => {
    await plug();
    const before = belongings();
    // On a busy machine a guest that boots has been told of before, in the same event: repeats are counted.
    const earlier = count();
    const since = guest.position();
    await guest.run("panic");
    await guest.waitForLine(/Kernel panic/, { timeoutMs: CHANGE_MS, since });
    removeInterface(VM, NIC);
    const told = await expectWait(({ reason }) => reason === "GuestRefused", 3 * AGAIN_MS);
    expect(faults()).toEqual([]);
    expect(told).toMatchObject({
      attempts: 3,
      message: expect.stringMatching(/3 times.*reset it/) as string,
    });
    expect(belongings()).toEqual(before);
    const message = `interface ${NIC}: ${told.message ?? ""}`;
    const isTold = () => refusals().some((refusal) => refusal.message === message);
    await eventually(isTold, { withinMs: CHANGE_MS }); // a little after the status
    expect(count()).toBe(earlier + 1);
    virsh(VM, "reset");
    await expectGone(VM, NIC);
    expect(linksOf(podUid)).toEqual(linksAtRest);
    expect(isTold()).toBe(true);
    expect(count()).toBe(earlier + 1);
  });
});
