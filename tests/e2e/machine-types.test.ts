// SPDX-License-Identifier: Apache-2.0
// The older machine type, pc, plugs and unplugs too: conventional PCI slots instead of PCIe ports.
import { eventually, vmManifest } from "@patchbay/testing";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  addInterface,
  CHANGE_MS,
  expectGone,
  expectReady,
  machine,
  removeInterface,
} from "./machine.ts";

beforeAll(async () => {
  machine.apply(vmManifest({ name: "oldtimer", machine: "pc" }));
  await eventually(() => machine.findVmi("oldtimer")?.status?.phase === "Running", {
    withinMs: 60_000,
  });
  const console = machine.console("oldtimer");
  await console.waitForLine(/guest ready/, { timeoutMs: 60_000, fromStart: true });
});

afterAll(() => {
  machine.kubectl("delete", "vm", "oldtimer", "--wait=true");
});

test("a NIC goes into a VM of machine type pc and out again", async () => {
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
