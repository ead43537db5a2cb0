// SPDX-License-Identifier: Apache-2.0
// A VM stores the NIC history of its VMI, without extra writes while the guest runs.
import {
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type IfaceHistory,
  type IfaceOperation,
  type VmiStatus,
} from "@patchbay/api";
import { aVm, aVmi } from "@patchbay/support";
import { expect, test } from "vitest";
import { Bench } from "../../testing/bench.ts";

const VM = "patch virtualmachines default/vm1";
const ONE = { name: "one", mac: "02:00:00:00:00:01" };
const PLUG: IfaceOperation = {
  type: "Plug",
  startTimestamp: "2026-01-01T00:00:00.000Z",
  phases: [{ phase: "PodAttaching" }],
};
const HISTORY: IfaceHistory = [{ name: "one", operations: [PLUG] }];

async function tell(bench: Bench, told: VmiStatus): Promise<void> {
  const status = { interfaces: [{ name: "one" }], ...told };
  await bench.put(VIRTUAL_MACHINE_INSTANCES, aVmi({ nics: [ONE], ownedByVm: true, status }));
}

test("the VM takes over the NIC history of its ended VMI", async () => {
  const bench = new Bench();
  await bench.put(VIRTUAL_MACHINES, aVm({ nics: [ONE] }));
  await tell(bench, { phase: "Running" });
  await bench.settleVm();
  const before = bench.calls.length;
  await tell(bench, { phase: "Running", interfaceHistory: HISTORY });
  await bench.settleVm();
  expect(bench.calls.slice(before)).not.toContain(VM);
  expect((await bench.vm())?.status?.interfaceHistory).toBeUndefined();
  await tell(bench, { phase: "Failed", interfaceHistory: HISTORY });
  await bench.settleVm();
  expect((await bench.vm())?.status?.interfaceHistory).toMatchObject([
    { name: "one", operations: [{ ...PLUG, outcome: "GuestEnded" }] },
  ]);
  const after = bench.calls.length;
  await bench.settleVm();
  expect(bench.calls.slice(after)).toEqual([]);
});
