// SPDX-License-Identifier: Apache-2.0
// Diagnosis of lost frames of guests.
import { eventually } from "@patchbay/support";
import { createFakeNicDoctor, type FakeNicDoctor } from "@patchbay/podnet/testing";
import { afterEach, beforeEach, expect, test } from "vitest";
import { LoopNode } from "../testing/loop-node.ts";
import { aScheduledVmi, MACS } from "../testing/scene.ts";
import type { ExamineGuest } from "./guest-doctor.ts";

const KEY = { namespace: "default", name: "vm1" };
const SOON = { withinMs: 5_000 };

let node: LoopNode;
let doctor: FakeNicDoctor;
let examine: ExamineGuest;

beforeEach(async () => {
  node = new LoopNode();
  await node.put(aScheduledVmi(["one"]));
  node.start();
  await eventually(() => node.isRunning, SOON);
  doctor = createFakeNicDoctor();
  examine = node.createExamine({ doctor, node: { fd: 9, inode: "1" } });
});

afterEach(async () => {
  await node.stop();
});

function hear(mac: string, ...addresses: readonly string[]): void {
  node.daemon.setAgent("default_vm1", [{ name: "eth0", mac, addresses }]);
}

test("finds no fault when frames pass", async () => {
  hear(MACS.one, "10.9.0.1", "fe80::1");
  const report = await examine(KEY, "one");
  expect(report).toMatchObject({ vmi: "default/vm1", interface: "one" });
  expect(report.firstDead).toBeUndefined();
  expect(doctor.examined).toMatchObject([
    { addresses: ["10.9.0.1"], testsDhcp: false, wiring: { mac: MACS.one }, node: { inode: "1" } },
  ]);
});

test("names the VM and the pod's network namespace in the commands of fixes", async () => {
  hear("02:00:00:00:00:77", "10.9.0.1");
  doctor.hasNoPodNics = true;
  const { hops } = await examine(KEY, "one");
  const nic = hops.find(({ hop }) => hop === "podNic");
  expect(nic?.fix).toContain("`patchbay explain vm1 one -n default`");
});

test("reports a guest that has just started as uncertain", async () => {
  const { status } = aScheduledVmi(["one"]);
  const phaseTransitionTimestamp = new Date(node.clock.now() - 10_000).toISOString();
  const running = { phase: "Running" as const, phaseTransitionTimestamp };
  const vmi = aScheduledVmi(["one"]);
  await node.put({ ...vmi, status: { ...status, phaseTransitionTimestamps: [running] } });
  hear(MACS.one);
  const { hops, isUnplugReason } = await examine(KEY, "one");
  expect(hops[0]).toMatchObject({ state: "unknown", reason: "GuestBooting" });
  expect(isUnplugReason).toBe(false);
});

test("probes a guest without a known address by DHCP", async () => {
  await examine(KEY, "one");
  expect(doctor.examined).toMatchObject([{ addresses: [], testsDhcp: true }]);
});

test("reports a guest with another MAC", async () => {
  hear("02:00:00:00:00:77", "10.9.0.1");
  const { hops, firstDead } = await examine(KEY, "one");
  expect(firstDead).toBe("guest");
  expect(hops[0]).toMatchObject({ hop: "guest", reason: "WrongMacInGuest" });
});

test("allows one examination of an interface and a few of a node at a time", async () => {
  const release = doctor.hold();
  const first = examine(KEY, "one");
  await expect(examine(KEY, "one")).rejects.toMatchObject({
    code: "DOCTOR_BUSY",
    details: { reason: "it is being examined" },
  });
  const second = examine(KEY, "two");
  await expect(examine(KEY, "three")).rejects.toMatchObject({
    code: "DOCTOR_BUSY",
    details: { reason: "its node already examines 2 interfaces of its namespace" },
  });
  await expect(second).rejects.toMatchObject({ code: "KUBE_NOT_FOUND" });
  release();
  await first;
  await examine(KEY, "one");
});

test("ends at its time limit, whatever it waits for", async () => {
  const release = doctor.hold();
  const late = examine(KEY, "one").catch((error: unknown) => error);
  await eventually(() => doctor.examined.length > 0, SOON);
  await node.clock.advance(5_000);
  expect(await late).toMatchObject({ code: "DOCTOR_LATE" });
  release();
});

test("does not find a guest of another node", async () => {
  await expect(examine({ namespace: "default", name: "vm2" }, "one")).rejects.toMatchObject({
    code: "KUBE_NOT_FOUND",
  });
});
