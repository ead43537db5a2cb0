// SPDX-License-Identifier: Apache-2.0
// A VM with hot-plugged NICs is deleted: nothing is left on the machine, and its status was correct meanwhile.
import { eventually, FEW_PORTS, vmManifest } from "@patchbay/support";
import { expect, test } from "vitest";
import { hostVeths, leaseFiles, tracesOf } from "../inventory.ts";
import { addInterface, CHANGE_MS, expectReady, machine } from "../machine.ts";

const PHASES = ["Pending", "PodAttaching", "Wiring", "Attaching", "Ready"];

// Another VM may still be ending: only this one's additions count.
test("a VM that is deleted with hot-plugged NICs leaves nothing behind", async () => {
  const before = { veths: hostVeths(), leases: leaseFiles("pbt-blue") };
  machine.apply(vmManifest({ name: "shortlived", pcieRootPorts: FEW_PORTS }));
  await eventually(() => machine.findVmi("shortlived")?.status?.phase === "Running", {
    withinMs: 60_000,
  });
  addInterface("shortlived", { name: "one", network: "blue" });
  addInterface("shortlived", { name: "two", network: "red" });
  const seen = new Set<string>();
  await eventually(
    () => {
      const interfaces = machine.findVmi("shortlived")?.status?.interfaces ?? [];
      for (const { hotplug } of interfaces) seen.add(hotplug?.phase ?? "none");
      return interfaces.filter(({ hotplug }) => hotplug?.phase === "Ready").length === 3;
    },
    { withinMs: CHANGE_MS },
  );
  expect(PHASES).toEqual(expect.arrayContaining([...seen]));
  await expectReady("shortlived", "two");
  const podUid = machine.findPod("shortlived")?.metadata.uid ?? "none";
  machine.delete("vm", "shortlived");
  await eventually(
    () => machine.findVmi("shortlived") === undefined && machine.findVm("shortlived") === undefined,
    { withinMs: 60_000 },
  );
  await eventually(
    () => {
      expect(tracesOf(podUid)).toEqual([]);
      expect(hostVeths().filter((link) => !before.veths.includes(link))).toEqual([]);
      expect(leaseFiles("pbt-blue").filter((lease) => !before.leases.includes(lease))).toEqual([]);
      return true;
    },
    { withinMs: 20_000 },
  );
});
