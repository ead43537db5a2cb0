// SPDX-License-Identifier: Apache-2.0
import {
  NETWORK_ATTACHMENT_DEFINITIONS,
  VIRTUAL_MACHINE_INSTANCES,
  type NetworkAttachmentDefinition,
  type VirtualMachine,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { listMacs } from "@patchbay/core/nics";
import { KeyedMutex } from "@patchbay/base";
import { createFakeCache, createFakeStore, type FakeStore } from "@patchbay/kube/testing";
import { aVm, aVmi } from "@patchbay/support";
import { beforeEach, expect, test } from "vitest";
import { BY_MAC, createUniqueVmi } from "./create-vmi.ts";

const MAC = "02:00:00:00:00:01";

let store: FakeStore;
let deps: Parameters<typeof createUniqueVmi>[1];

function named<T extends VirtualMachine | VirtualMachineInstance>(object: T, name: string): T {
  return { ...object, metadata: { ...object.metadata, name, uid: `${name}-uid` } };
}

function vmiOf(name: string, mac: string, network = "blue"): VirtualMachineInstance {
  return named(aVmi({ nics: [{ name: "nic", mac, network }] }), name);
}

beforeEach(() => {
  store = createFakeStore();
  const byVm = { [BY_MAC]: (vm: VirtualMachine) => listMacs(vm.spec.template.spec) };
  const byVmi = { [BY_MAC]: (vmi: VirtualMachineInstance) => listMacs(vmi.spec) };
  const vms = createFakeCache<VirtualMachine>(byVm);
  for (const name of ["one", "two", "red"]) {
    const network = name === "red" ? "red" : "blue";
    vms.put(named(aVm({ nics: [{ name: "nic", mac: MAC, network }] }), name));
  }
  const nads = createFakeCache<NetworkAttachmentDefinition>();
  for (const name of ["blue", "red", "green"]) {
    const bridge = name === "green" ? "br2" : "br1";
    const config = JSON.stringify({ cniVersion: "1.0.0", type: "bridge", bridge });
    const { kind } = NETWORK_ATTACHMENT_DEFINITIONS;
    const metadata = { namespace: "default", name };
    nads.put({ apiVersion: "k8s.cni.cncf.io/v1", kind, metadata, spec: { config } });
  }
  const vmis = createFakeCache<VirtualMachineInstance>(byVmi);
  deps = { store, vms, vmis, nads, macMutex: new KeyedMutex() };
});

async function created(): Promise<readonly string[]> {
  return (await store.list(VIRTUAL_MACHINE_INSTANCES)).items.map(({ metadata }) => metadata.name);
}

test("only one of two VMs with the same MAC that start concurrently gets a VMI", async () => {
  const results = await Promise.allSettled(
    ["one", "two"].map((name) => createUniqueVmi(vmiOf(name, MAC.toUpperCase()), deps)),
  );
  expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected"]);
  expect(results[1]).toMatchObject({
    reason: {
      code: "CONTROLLER_MAC_IN_USE",
      details: { mac: MAC, interface: "nic", network: "default/blue", owner: "VM default/one" },
    },
  });
  expect(await created()).toEqual(["one"]);
});

test("a MAC is free when the other guest has ended", async () => {
  store.put(VIRTUAL_MACHINE_INSTANCES, vmiOf("one", MAC));
  await expect(createUniqueVmi(vmiOf("two", MAC), deps)).rejects.toThrow("VM default/one");
  store.put(VIRTUAL_MACHINE_INSTANCES, { ...vmiOf("one", MAC), status: { phase: "Succeeded" } });
  await createUniqueVmi(vmiOf("two", MAC), deps);
  expect(await created()).toEqual(["one", "two"]);
});

test.each([
  { name: "on another network of the same bridge it is in use", network: "red", isFree: false },
  { name: "on the network of another bridge it is free", network: "green", isFree: true },
])("$name", async ({ network, isFree }) => {
  store.put(VIRTUAL_MACHINE_INSTANCES, vmiOf("one", MAC));
  const result = await createUniqueVmi(vmiOf("two", MAC, network), deps).catch(() => undefined);
  expect(result !== undefined).toBe(isFree);
});

test("also checks a VMI with a MAC that its VM no longer has", async () => {
  const old = "02:00:00:00:00:09";
  const vmi = vmiOf("one", old);
  store.put(VIRTUAL_MACHINE_INSTANCES, vmi);
  await createUniqueVmi(vmiOf("two", "02:00:00:00:00:08"), deps);
  const vmis = createFakeCache<VirtualMachineInstance>({ [BY_MAC]: ({ spec }) => listMacs(spec) });
  vmis.put(vmi);
  await expect(createUniqueVmi(vmiOf("three", old), { ...deps, vmis })).rejects.toThrow(old);
});
