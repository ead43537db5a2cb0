// SPDX-License-Identifier: Apache-2.0
// The older machine type pc, with conventional PCI slots instead of PCIe ports, supports plug and unplug.
import { eventually, vmManifest } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ALL_MS, guestNics, restart } from "../guest.ts";
import {
  addInterface,
  appendOperations,
  CHANGE_MS,
  expectGone,
  expectReady,
  machine,
  removeInterface,
} from "../machine.ts";

function readyCount(): number {
  const interfaces = machine.findVmi("oldtimer")?.status?.interfaces ?? [];
  return interfaces.filter(({ hotplug }) => hotplug?.phase === "Ready").length;
}

beforeAll(async () => {
  machine.apply(vmManifest({ name: "oldtimer", machine: "pc" }));
  await machine.booted("oldtimer");
});

afterAll(() => {
  machine.delete("vm", "oldtimer");
});

test("a VM of machine type pc accepts as many NICs as its bus has slots", async () => {
  expect(machine.findVmi("oldtimer")?.status?.pciePorts).toEqual({ total: 30, free: 27 });
  const names = Array.from({ length: 27 }, (_unused, index) => `n${String(index)}`);
  const base = "/spec/template/spec";
  const operations = names.flatMap((name) => appendOperations(base, { name, network: "red" }));
  machine.patch("vm", "oldtimer", operations);
  await eventually(() => readyCount() === 28, { withinMs: ALL_MS });
  expect(() => {
    addInterface("oldtimer", { name: "late", network: "red" });
  }).toThrow(/0 of 30 PCIe ports/);
  for (const name of names) removeInterface("oldtimer", name);
  await eventually(() => machine.findVmi("oldtimer")?.status?.pciePorts?.free === 27, {
    withinMs: ALL_MS,
  });
});

test("a NIC is plugged into a VM of machine type pc and unplugged", async () => {
  const console = machine.console("oldtimer");
  const since = console.position();
  addInterface("oldtimer", { name: "blue1", network: "blue" });
  const status = await expectReady("oldtimer", "blue1");
  expect(status.pciAddress).toMatch(/^0000:00:/);
  await console.waitForLine(new RegExp(`nic added .* mac ${status.mac ?? ""}`), {
    timeoutMs: CHANGE_MS,
    since,
  });
  removeInterface("oldtimer", "blue1");
  await console.waitForLine(/nic removed/, { timeoutMs: CHANGE_MS, since });
  await expectGone("oldtimer", "blue1");
});

test("a plugged NIC keeps its address across a restart, also when an earlier one was removed", async () => {
  addInterface("oldtimer", { name: "first", network: "red" });
  addInterface("oldtimer", { name: "second", network: "red" });
  const first = await expectReady("oldtimer", "first");
  const second = await expectReady("oldtimer", "second");
  expect(first.pciAddress).not.toBe(second.pciAddress);
  removeInterface("oldtimer", "first");
  await expectGone("oldtimer", "first");
  await restart("oldtimer");
  const { mac = "", pciAddress = "" } = await expectReady("oldtimer", "second");
  expect(pciAddress).toBe(second.pciAddress);
  await eventually(
    async () => (await guestNics("oldtimer")).some((nic) => nic.pciAddress === pciAddress),
    { withinMs: CHANGE_MS },
  );
  expect(await guestNics("oldtimer")).toContainEqual({ mac, pciAddress });
});
