// SPDX-License-Identifier: Apache-2.0
// VMs and VMIs that cannot run report that by a condition, an event and the printable status.
import { EVENTS, VIRTUAL_MACHINE_INSTANCES, type VirtualMachineInstance } from "@patchbay/api";
import { findSyncError } from "@patchbay/core/status";
import { aVmi, eventually } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { useStage } from "./testing/component-environment.ts";

const SOON = { withinMs: 5000 };
const TEMPLATE = "spec.template.spec.domain";

const stage = useStage();

/** Reasons of warning events about objects of the kind. */
async function warningsOf(kind: string): Promise<ReadonlyMap<string, string>> {
  const { items } = await stage.admin.store.list(EVENTS, { namespace: "default" });
  const own = items.filter(
    ({ involvedObject, type }) => involvedObject.kind === kind && type === "Warning",
  );
  return new Map(own.map(({ reason, message }) => [reason, message]));
}

async function warning(kind: string, reason: string): Promise<string> {
  return eventually(async () => (await warningsOf(kind)).get(reason), SOON);
}

/** The VM's conditions once it has this printable status. */
async function vmTells(printed: string): Promise<string> {
  const { status } = await stage.scene.vmWhen(
    ({ status: now }) => now?.printableStatus === printed,
  );
  const { reason = "", message = "" } = findSyncError(status?.conditions) ?? {};
  return `${reason}: ${message}`;
}

describe("a VM with unsupported fields", () => {
  const unbuilt = [
    { op: "add", path: "/spec/template/spec/domain/devices/sound", value: { name: "s" } },
    { op: "add", path: "/spec/template/spec/domain/memory", value: { hugepages: {} } },
    { op: "add", path: "/spec/template/spec/domain/launchSecurity", value: {} },
  ] as const;

  test("names all of them, is not started, and starts when they are removed", async () => {
    await stage.scene.createVm([{ name: "one" }], "Halted");
    await stage.scene.patchVm([
      ...unbuilt,
      { op: "add", path: "/spec/runStrategy", value: "Always" },
    ]);
    const told = await vmTells("ErrorUnsupportedSpec");
    for (const field of [
      `${TEMPLATE}.devices.sound`,
      `${TEMPLATE}.memory.hugepages`,
      `${TEMPLATE}.launchSecurity`,
    ]) {
      expect(told).toContain(`${field}: `);
    }
    expect(`UnsupportedSpec: ${await warning("VirtualMachine", "UnsupportedSpec")}`).toBe(told);
    expect(await stage.scene.findVmi()).toBeUndefined();
    await stage.scene.patchVm(unbuilt.map(({ path }) => ({ op: "remove", path })));
    await stage.scene.vmi();
    expect(await vmTells("Starting")).toBe(": ");
  });

  test("reports them while it is stopped, and stays Stopped", async () => {
    await stage.scene.createVm([{ name: "one" }], "Halted");
    await stage.scene.patchVm(unbuilt);
    await stage.scene.vmWhen(({ status }) => findSyncError(status?.conditions) !== undefined);
    expect(await vmTells("Stopped")).toContain("UnsupportedSpec: ");
  });
});

test("a VMI with unsupported fields gets no pod", async () => {
  const vmi = aVmi({ nics: [{ name: "one" }] });
  const domain = { ...vmi.spec.domain, memory: { guest: "12Gx" }, launchSecurity: {} };
  const made: VirtualMachineInstance = {
    ...vmi,
    metadata: { name: "vm1", namespace: "default" },
    spec: { ...vmi.spec, domain },
  };
  await stage.admin.store.create(VIRTUAL_MACHINE_INSTANCES, made);
  const { status } = await stage.scene.vmiWhen(
    ({ status: now }) => findSyncError(now?.conditions) !== undefined,
  );
  const message = findSyncError(status?.conditions)?.message ?? "";
  expect(message).toContain("spec.domain.memory.guest: 12Gx is not a quantity");
  expect(message).toContain("spec.domain.launchSecurity: is not supported yet");
  expect(await warning("VirtualMachineInstance", "UnsupportedSpec")).toBe(message);
  expect(await stage.scene.findPod()).toBeUndefined();
});

test("a pod that a policy rejects is reported on VMI and VM, and retried", async () => {
  const words = "pods is forbidden: exceeded quota: small";
  stage.controller.refuse("pods", words);
  await stage.scene.createVm([{ name: "one" }]);
  expect(await vmTells("ErrorCreateRefused")).toContain(
    `FailedCreate: the API server forbids the request: ${words}`,
  );
  expect(await warning("VirtualMachine", "FailedCreate")).toContain(words);
  expect(await warning("VirtualMachineInstance", "FailedCreate")).toContain(words);
  stage.controller.refuse("pods", undefined);
  await stage.scene.pod();
  expect(await vmTells("Starting")).toBe(": ");
});

test("a VMI that admission rejects is reported on the VM", async () => {
  stage.controller.refuse("virtualmachineinstances", "admission webhook denied it");
  await stage.scene.createVm([{ name: "one" }]);
  expect(await vmTells("ErrorCreateRefused")).toContain("admission webhook denied it");
  stage.controller.refuse("virtualmachineinstances", undefined);
  await stage.scene.vmi();
});

test("a VMI of another owner with the VM's name is reported and blocks the VM until it is deleted", async () => {
  const { spec, apiVersion, kind } = aVmi({ nics: [] });
  const metadata = { name: "vm1", namespace: "default" };
  await stage.admin.store.create(VIRTUAL_MACHINE_INSTANCES, { apiVersion, kind, metadata, spec });
  await stage.scene.createVm([]);
  expect(await vmTells("ErrorNameTaken")).toContain("NameTaken: a VirtualMachineInstance vm1");
  await stage.scene.deleteVmi();
  await stage.scene.removePod();
  expect(await vmTells("Starting")).toBe(": ");
});

test("a missing image is reported on VMI and VM, with the command that adds it", async () => {
  await stage.scene.createVm([{ name: "one" }]);
  const message = "image guest is not there; add it with: patchbay image add guest DIR";
  const waiting = { reason: "ErrImageNeverPull", message };
  const containers = [{ name: "compute", ready: false, restartCount: 0, state: { waiting } }];
  const value = { phase: "Pending", containerStatuses: containers };
  await stage.scene.patchPodStatus([{ op: "add", path: "/status", value }]);
  expect(await vmTells("ErrImageNeverPull")).toBe(`ErrImageNeverPull: ${message}`);
  expect(await warning("VirtualMachineInstance", "ErrImageNeverPull")).toBe(message);
});
