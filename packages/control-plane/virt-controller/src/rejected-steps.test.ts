// SPDX-License-Identifier: Apache-2.0
// A forbidden step does not block other steps, and backs off; also blocked-objects.test.ts.
import { EVENTS, type VirtualMachine, type VirtualMachineInstance } from "@patchbay/api";
import { aVm, eventually } from "@patchbay/support";
import { afterEach, beforeEach, expect, test } from "vitest";
import { startController } from "./testing/controllers.ts";
import { withdraw } from "./testing/withdraw-right.ts";
import { useStage } from "./testing/component-environment.ts";

const MACS = ["02:00:00:00:00:01", "02:00:00:00:00:02"] as const;
const SOON = { withinMs: 5000 };

const stage = useStage();
let giveBack: () => Promise<void>;

beforeEach(() => {
  giveBack = () => Promise.resolve();
});

afterEach(async () => {
  await giveBack();
});

function conditionOf(
  object: VirtualMachine | VirtualMachineInstance,
  type: string,
): string | undefined {
  const told = object.status?.conditions?.find((condition) => condition.type === type);
  return told && `${told.status} ${told.reason ?? ""}`;
}

/** Warning events of this test's objects: kind and reason. */
async function warnings(): Promise<readonly string[]> {
  const uids = [(await stage.scene.vm()).metadata.uid, (await stage.scene.findVmi())?.metadata.uid];
  const { items } = await stage.admin.store.list(EVENTS, { namespace: "default" });
  return items
    .filter(({ type, involvedObject }) => type === "Warning" && uids.includes(involvedObject.uid))
    .map(({ involvedObject, reason }) => [involvedObject.kind, reason].join(" "));
}

async function warned(text: string): Promise<void> {
  await eventually(async () => (await warnings()).includes(text), SOON);
}

test("a rejected change of NICs does not block the cleanup of the template", async () => {
  await stage.scene.createVm([{ name: "one", mac: MACS[0] }]);
  await stage.scene.boot();
  giveBack = await withdraw(stage.admin, "patch", "virtualmachineinstances");
  const { template } = aVm({
    nics: [
      { name: "one", mac: MACS[0] },
      { name: "two", mac: MACS[1] },
      { name: "never", state: "absent" },
    ],
  }).spec;
  await stage.scene.patchVm([{ op: "replace", path: "/spec/template", value: template }]);
  const vm = await stage.scene.vmWhen((each) => conditionOf(each, "Synchronized") !== undefined);
  expect(conditionOf(vm, "Synchronized")).toBe("False HotPlugNetworkInterfaceError");
  expect(vm.status?.printableStatus).toBe("Running");
  await warned("VirtualMachine HotPlugNetworkInterfaceError");
  await stage.scene.vmWhen(({ spec }) => spec.template.spec.networks?.length === 2);
  await giveBack();
  await stage.scene.vmiWhen(({ spec }) => spec.networks?.length === 2);
  await stage.scene.vmWhen((each) => conditionOf(each, "Synchronized") === undefined);
});

test("a pod that cannot be scheduled", async () => {
  await stage.scene.createVm([]);
  await stage.scene.pod();
  const message = "0/1 nodes are available";
  const told = { type: "PodScheduled", status: "False", reason: "Unschedulable", message };
  const value = { phase: "Pending", conditions: [told] };
  await stage.scene.patchPodStatus([{ op: "add", path: "/status", value }]);
  await stage.scene.vmWhen(({ status }) => status?.printableStatus === "ErrorUnschedulable");
  expect(conditionOf(await stage.scene.vm(), "Synchronized")).toBe("False Unschedulable");
  await warned("VirtualMachineInstance Unschedulable");
  await warned("VirtualMachine Unschedulable");
});

test("a rejected step is not retried early because of other events", async () => {
  // The controller's clock does not advance, so the backoff does not end.
  const { clock } = stage.server;
  const stopped = { now: clock.now(), monotonicMs: clock.monotonicMs() };
  await stage.controller.stop();
  stage.controller = await startController(stage.server, {
    clock: { ...clock, now: () => stopped.now, monotonicMs: () => stopped.monotonicMs },
  });
  stage.controller.refuse("pods", "exceeded quota");
  await stage.scene.createVm([]);
  await warned("VirtualMachineInstance FailedCreate");
  await stage.scene.vmiWhen((vmi) => conditionOf(vmi, "Synchronized") !== undefined);
  for (let round = 0; round < 20; round += 1) {
    await stage.scene.reportVmi({ pciePorts: { total: round, free: 0 } });
  }
  await stage.scene.vmWhen((vm) => conditionOf(vm, "Synchronized") !== undefined);
  // Attempts: at once, and again when the first writes have changed the step's inputs; 20 reports cause none.
  expect(stage.controller.refusals()).toBeLessThanOrEqual(2);
});
