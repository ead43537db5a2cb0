// SPDX-License-Identifier: Apache-2.0
// The migrate subresource.
import {
  VIRTUAL_MACHINE_INSTANCE_MIGRATIONS,
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { createFakeStore, type FakeStore } from "@patchbay/kube/testing";
import { beforeEach, expect, test } from "vitest";
import { aCall } from "../testing/call.ts";
import { depsOn } from "../testing/deps.ts";
import { aVm, aVmi } from "../testing/objects.ts";
import type { Answer } from "../http/calls.ts";
import { migrate } from "./change-vm.ts";

let store: FakeStore;

beforeEach(() => {
  store = createFakeStore();
  store.put(VIRTUAL_MACHINES, aVm());
});

function guest(status: "True" | "False"): VirtualMachineInstance {
  const owner = { apiVersion: "kubevirt.io/v1", kind: "VirtualMachine", name: "vm" };
  const vmi = aVmi("vm");
  const ownerReferences = [{ ...owner, uid: "vm-uid", controller: true }];
  const condition = { type: "LiveMigratable", status, reason: "DisksNotLiveMigratable" };
  return {
    ...vmi,
    metadata: { ...vmi.metadata, ownerReferences },
    status: { phase: "Running", conditions: [{ ...condition, message: "a disk" }] },
  };
}

function ask(part: Parameters<typeof aCall>[0] = {}): Promise<Answer> {
  return migrate(depsOn(store))(aCall(part));
}

async function made(): Promise<readonly unknown[]> {
  const { items } = await store.list(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS);
  return items.map(({ metadata, spec }) => [metadata.name, spec]);
}

test("creates a migration in the VM's namespace", async () => {
  store.put(VIRTUAL_MACHINE_INSTANCES, guest("True"));
  expect(await ask({ body: { addedNodeSelector: { zone: "b" } } })).toMatchObject({ code: 202 });
  const spec = { vmiName: "vm", addedNodeSelector: { zone: "b" } };
  expect(await made()).toEqual([["kubevirt-migrate-vm-0101010101", spec]]);
});

test("creates no migration in a dry run", async () => {
  store.put(VIRTUAL_MACHINE_INSTANCES, guest("True"));
  expect(await ask({ dryRun: true })).toMatchObject({ code: 202 });
  expect(await made()).toEqual([]);
});

test.each<{ name: string; vmi?: VirtualMachineInstance; part?: object; code: number }>([
  { name: "a guest that cannot migrate", vmi: guest("False"), code: 400 },
  { name: "no running guest", code: 409 },
  { name: "an unknown VM", part: { name: "other" }, code: 404 },
  { name: "an invalid body", vmi: guest("True"), part: { body: [] }, code: 400 },
])("creates nothing for $name: $code", async ({ vmi, part, code }) => {
  if (vmi !== undefined) store.put(VIRTUAL_MACHINE_INSTANCES, vmi);
  expect((await ask(part)).code).toBe(code);
  expect(await made()).toEqual([]);
});
