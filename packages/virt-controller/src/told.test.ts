// SPDX-License-Identifier: Apache-2.0
// What cannot run is said on the VM and on the VMI, by a condition, an event and the printed status.
import { EVENTS, VIRTUAL_MACHINE_INSTANCES, type VirtualMachineInstance } from "@patchbay/api";
import { findObstacle } from "@patchbay/core";
import type { KubeClient } from "@patchbay/kube";
import { aVmi, eventually } from "@patchbay/testing";
import { startTestServer, type TestServer } from "@patchbay/testing/api-server";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { startController, type Controller } from "./testing/controllers.ts";
import { Scene } from "./testing/scene.ts";

const SOON = { withinMs: 5000 };
const TEMPLATE = "spec.template.spec.domain";

let server: TestServer;
let admin: KubeClient;
let controller: Controller;
let scene: Scene;

beforeAll(async () => {
  server = await startTestServer();
  admin = await server.client("kubernetes-admin", ["system:masters"]);
});

afterAll(async () => {
  await server.close();
});

beforeEach(async () => {
  controller = await startController(server);
  scene = new Scene(admin, "vm1");
});

afterEach(async () => {
  await scene.end();
  await controller.stop();
});

/** Warnings about an object of that kind, by reason. */
async function warningsOf(kind: string): Promise<ReadonlyMap<string, string>> {
  const { items } = await admin.store.list(EVENTS, { namespace: "default" });
  const own = items.filter(
    ({ involvedObject, type }) => involvedObject.kind === kind && type === "Warning",
  );
  return new Map(own.map(({ reason, message }) => [reason, message]));
}

async function warning(kind: string, reason: string): Promise<string> {
  return eventually(async () => (await warningsOf(kind)).get(reason), SOON);
}

/** What the VM tells when it is printed so. */
async function vmTells(printed: string): Promise<string> {
  const { status } = await scene.vmWhen(({ status: now }) => now?.printableStatus === printed);
  const { reason = "", message = "" } = findObstacle(status?.conditions) ?? {};
  return `${reason}: ${message}`;
}

describe("a VM with fields that are not built", () => {
  const unbuilt = [
    { op: "add", path: "/spec/template/spec/domain/devices/rng", value: {} },
    { op: "add", path: "/spec/template/spec/domain/cpu", value: { model: "Haswell" } },
    { op: "add", path: "/spec/instancetype", value: { name: "u1.medium" } },
  ] as const;

  test("names all of them, is not started, and starts when they are gone", async () => {
    await scene.createVm([{ name: "one" }], "Halted");
    await scene.patchVm([...unbuilt, { op: "add", path: "/spec/runStrategy", value: "Always" }]);
    const told = await vmTells("ErrorUnsupportedSpec");
    for (const field of [`${TEMPLATE}.devices.rng`, `${TEMPLATE}.cpu.model`, "spec.instancetype"]) {
      expect(told).toContain(`${field}: `);
    }
    expect(`UnsupportedSpec: ${await warning("VirtualMachine", "UnsupportedSpec")}`).toBe(told);
    expect(await scene.findVmi()).toBeUndefined();
    await scene.patchVm(unbuilt.map(({ path }) => ({ op: "remove", path })));
    await scene.vmi();
    expect(await vmTells("Starting")).toBe(": ");
  });

  test("says so while it is stopped too, and stays Stopped", async () => {
    await scene.createVm([{ name: "one" }], "Halted");
    await scene.patchVm(unbuilt);
    await scene.vmWhen(({ status }) => findObstacle(status?.conditions) !== undefined);
    expect(await vmTells("Stopped")).toContain("UnsupportedSpec: ");
  });
});

test("a VMI with fields that are not built gets no pod", async () => {
  const vmi = aVmi({ nics: [{ name: "one" }] });
  const domain = { ...vmi.spec.domain, memory: { guest: "12Gx" }, launchSecurity: {} };
  const made: VirtualMachineInstance = {
    ...vmi,
    metadata: { name: "vm1", namespace: "default" },
    spec: { ...vmi.spec, domain },
  };
  await admin.store.create(VIRTUAL_MACHINE_INSTANCES, made);
  const { status } = await scene.vmiWhen(
    ({ status: now }) => findObstacle(now?.conditions) !== undefined,
  );
  const message = findObstacle(status?.conditions)?.message ?? "";
  expect(message).toContain("spec.domain.memory.guest: 12Gx is no quantity");
  expect(message).toContain("spec.domain.launchSecurity: is not supported yet");
  expect(await warning("VirtualMachineInstance", "UnsupportedSpec")).toBe(message);
  expect(await scene.findPod()).toBeUndefined();
});

test("a pod that a policy refuses is told on VMI and VM, and tried again", async () => {
  const words = "pods is forbidden: exceeded quota: small";
  controller.refuse("pods", words);
  await scene.createVm([{ name: "one" }]);
  expect(await vmTells("ErrorCreateRefused")).toContain(
    `FailedCreate: the API server forbids it: ${words}`,
  );
  expect(await warning("VirtualMachine", "FailedCreate")).toContain(words);
  expect(await warning("VirtualMachineInstance", "FailedCreate")).toContain(words);
  controller.refuse("pods", undefined);
  await scene.pod();
  expect(await vmTells("Starting")).toBe(": ");
});

test("a VMI that admission refuses is told on the VM", async () => {
  controller.refuse("virtualmachineinstances", "admission webhook denied it");
  await scene.createVm([{ name: "one" }]);
  expect(await vmTells("ErrorCreateRefused")).toContain("admission webhook denied it");
  controller.refuse("virtualmachineinstances", undefined);
  await scene.vmi();
});

test("a VMI of the VM's name that is not the VM's is told, and in the way until it goes", async () => {
  const { spec, apiVersion, kind } = aVmi({ nics: [] });
  const metadata = { name: "vm1", namespace: "default" };
  await admin.store.create(VIRTUAL_MACHINE_INSTANCES, { apiVersion, kind, metadata, spec });
  await scene.createVm([]);
  expect(await vmTells("ErrorNameTaken")).toContain("NameTaken: a VirtualMachineInstance vm1");
  await scene.deleteVmi();
  await scene.removePod();
  expect(await vmTells("Starting")).toBe(": ");
});

test("an image that is not there is told on VMI and VM, with the command that brings it", async () => {
  await scene.createVm([{ name: "one" }]);
  const message = "image guest is not there; add it with: patchbay image add guest DIR";
  const waiting = { reason: "ErrImageNeverPull", message };
  const containers = [{ name: "compute", ready: false, restartCount: 0, state: { waiting } }];
  const value = { phase: "Pending", containerStatuses: containers };
  await scene.patchPodStatus([{ op: "add", path: "/status", value }]);
  expect(await vmTells("ErrImageNeverPull")).toBe(`ErrImageNeverPull: ${message}`);
  expect(await warning("VirtualMachineInstance", "ErrImageNeverPull")).toBe(message);
});
