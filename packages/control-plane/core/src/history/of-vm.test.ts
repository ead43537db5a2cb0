// SPDX-License-Identifier: Apache-2.0
import type { IfaceHistory, VmiStatus, VmStatus } from "@patchbay/api";
import { aVm, aVmi } from "@patchbay/support";
import { expect, test } from "vitest";
import { mergeVmHistory, buildNextVmHistory } from "./of-vm.ts";

const NOW = "2026-01-01T00:00:09.000Z";
const OPEN: IfaceHistory = [
  {
    name: "one",
    operations: [{ type: "Plug", startTimestamp: "2026-01-01T00:00:00.000Z", phases: [] }],
  },
];

function vm(status: VmStatus) {
  return { ...aVm(), status };
}

function vmi(status: VmiStatus) {
  return aVmi({ status: { interfaceHistory: OPEN, ...status } });
}

const OLD = { created: true };

test("does not write the VM only for the history while the guest runs", () => {
  const owner = { vm: vm(OLD), vmi: vmi({ phase: "Running" }) };
  expect(buildNextVmHistory(owner, OLD, NOW)).toBeUndefined();
  expect(buildNextVmHistory(owner, { ...OLD, ready: true }, NOW)).toEqual(OPEN);
});

test("copies the VMI's history to the VM when the guest ends, and closes open operations", () => {
  const ended = { outcome: "GuestEnded", endTimestamp: NOW };
  const retained = buildNextVmHistory({ vm: vm(OLD), vmi: vmi({ phase: "Failed" }) }, OLD, NOW);
  expect(retained).toMatchObject([{ operations: [ended] }]);
  const after = vm({ ...OLD, interfaceHistory: retained ?? [] });
  expect(buildNextVmHistory({ vm: after }, OLD, "2026-01-01T00:01:00.000Z")).toEqual(retained);
});

test("a VM of which nothing is known has none", () => {
  expect(buildNextVmHistory({ vm: aVm() }, OLD, NOW)).toBeUndefined();
});

test("uses the VMI's own history without a VM, and no time if none is recorded", () => {
  expect(mergeVmHistory({ vmi: vmi({ phase: "Running" }) })).toEqual(OPEN);
  const [iface] = mergeVmHistory({ vmi: vmi({ phase: "Succeeded" }) });
  expect(iface?.operations[0]).toEqual({ ...OPEN[0]?.operations[0], outcome: "GuestEnded" });
});
