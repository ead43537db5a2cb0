// SPDX-License-Identifier: Apache-2.0
// A step that virt-controller is not allowed keeps no other from being done, and is left alone; also told.test.ts.
import { EVENTS, type VirtualMachine, type VirtualMachineInstance } from "@patchbay/api";
import type { KubeClient } from "@patchbay/kube";
import { aVm, eventually } from "@patchbay/testing";
import { startTestServer, type TestServer } from "@patchbay/testing/api-server";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { startController, type Controller } from "./testing/controllers.ts";
import { withdraw } from "./testing/rights.ts";
import { Scene } from "./testing/scene.ts";

const MACS = ["02:00:00:00:00:01", "02:00:00:00:00:02"] as const;
const SOON = { withinMs: 5000 };

let server: TestServer;
let admin: KubeClient;
let controller: Controller;
let scene: Scene;
let giveBack: () => Promise<void>;

beforeAll(async () => {
  server = await startTestServer();
  admin = await server.client("kubernetes-admin", ["system:masters"]);
});

afterAll(async () => {
  await server.close();
});

beforeEach(async () => {
  giveBack = () => Promise.resolve();
  controller = await startController(server);
  scene = new Scene(admin, "vm1");
});

afterEach(async () => {
  await giveBack();
  await scene.end();
  await controller.stop();
});

function conditionOf(
  object: VirtualMachine | VirtualMachineInstance,
  type: string,
): string | undefined {
  const told = object.status?.conditions?.find((condition) => condition.type === type);
  return told && `${told.status} ${told.reason ?? ""}`;
}

/** Warnings on this test's objects: kind of object and reason. */
async function warnings(): Promise<readonly string[]> {
  const uids = [(await scene.vm()).metadata.uid, (await scene.findVmi())?.metadata.uid];
  const { items } = await admin.store.list(EVENTS, { namespace: "default" });
  return items
    .filter(({ type, involvedObject }) => type === "Warning" && uids.includes(involvedObject.uid))
    .map(({ involvedObject, reason }) => [involvedObject.kind, reason].join(" "));
}

async function warned(text: string): Promise<void> {
  await eventually(async () => (await warnings()).includes(text), SOON);
}

test("a change of the NICs that is refused keeps the template's tidying from nothing", async () => {
  await scene.createVm([{ name: "one", mac: MACS[0] }]);
  await scene.boot();
  giveBack = await withdraw(admin, "patch", "virtualmachineinstances");
  const { template } = aVm({
    nics: [
      { name: "one", mac: MACS[0] },
      { name: "two", mac: MACS[1] },
      { name: "never", state: "absent" },
    ],
  }).spec;
  await scene.patchVm([{ op: "replace", path: "/spec/template", value: template }]);
  const vm = await scene.vmWhen((each) => conditionOf(each, "Synchronized") !== undefined);
  expect(conditionOf(vm, "Synchronized")).toBe("False HotPlugNetworkInterfaceError");
  expect(vm.status?.printableStatus).toBe("Running");
  await warned("VirtualMachine HotPlugNetworkInterfaceError");
  await scene.vmWhen(({ spec }) => spec.template.spec.networks?.length === 2);
  await giveBack();
  await scene.vmiWhen(({ spec }) => spec.networks?.length === 2);
  await scene.vmWhen((each) => conditionOf(each, "Synchronized") === undefined);
});

test("a pod that finds no node", async () => {
  await scene.createVm([]);
  await scene.pod();
  const message = "0/1 nodes are available";
  const told = { type: "PodScheduled", status: "False", reason: "Unschedulable", message };
  const value = { phase: "Pending", conditions: [told] };
  await scene.patchPodStatus([{ op: "add", path: "/status", value }]);
  await scene.vmWhen(({ status }) => status?.printableStatus === "ErrorUnschedulable");
  expect(conditionOf(await scene.vm(), "Synchronized")).toBe("False Unschedulable");
  await warned("VirtualMachineInstance Unschedulable");
  await warned("VirtualMachine Unschedulable");
});

test("a refused step is left alone, whatever happens around it", async () => {
  controller.refuse("pods", "exceeded quota");
  await scene.createVm([]);
  await warned("VirtualMachineInstance FailedCreate");
  await scene.vmiWhen((vmi) => conditionOf(vmi, "Synchronized") !== undefined);
  for (let round = 0; round < 20; round += 1) {
    await scene.reportVmi({ pciePorts: { total: round, free: 0 } });
  }
  await scene.vmWhen((vm) => conditionOf(vm, "Synchronized") !== undefined);
  // At once, and after a second at the earliest.
  expect(controller.refusals()).toBeLessThan(4);
});
