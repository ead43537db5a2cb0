// SPDX-License-Identifier: Apache-2.0
// A VM whose node is drained by a user's kubectl.
import { eventually, FEW_PORTS, vmManifest } from "@patchbay/support";
import { afterAll, expect, test } from "vitest";
import { machine } from "../e2e/machine.ts";

const VM = "drained";
const TIMEOUT = { withinMs: 90_000 };

function nodeName(): string {
  return machine.kubectl("get", "nodes", "-o", "jsonpath={.items[0].metadata.name}");
}

afterAll(() => {
  machine.kubectl("uncordon", nodeName());
  machine.delete("vm", VM);
});

test("shuts its guest down, waits, and runs it again after an uncordon", async () => {
  machine.apply(vmManifest({ name: VM, pcieRootPorts: FEW_PORTS }));
  await machine.booted(VM);
  const uid = machine.findVmi(VM)?.metadata.uid;
  const node = nodeName();
  const pods = ["--pod-selector", `vm.kubevirt.io/name=${VM}`];
  const drain = ["drain", node, "--force", "--delete-emptydir-data", "--timeout=60s"];
  expect(machine.kubectl(...drain, ...pods)).toContain(`node/${node} drained`);
  await eventually(
    () => machine.findVm(VM)?.status?.printableStatus === "ErrorUnschedulable",
    TIMEOUT,
  );
  machine.kubectl("uncordon", node);
  await eventually(() => machine.findVmi(VM)?.status?.phase === "Running", TIMEOUT);
  expect(machine.findVmi(VM)?.metadata.uid).not.toBe(uid);
  await machine.booted(VM);
});
