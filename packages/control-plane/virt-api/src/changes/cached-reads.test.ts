// SPDX-License-Identifier: Apache-2.0
// What a request costs, and what becomes of it where the caches are behind.
import {
  NETWORK_ATTACHMENT_DEFINITIONS,
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type NetworkAttachmentDefinition,
  type VirtualMachine,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { createCachedReader, createMutationCache } from "@patchbay/kube";
import { createFakeCache, createFakeStore, type FakeStore } from "@patchbay/kube/testing";
import { beforeEach, describe, expect, test } from "vitest";
import type { Deps } from "../deps.ts";
import { addIface, removeIface } from "../routes/ifaces.ts";
import { mutate } from "../admission/mutate.ts";
import { validate } from "../admission/validate.ts";
import { asked, BLUE, MAC, specWith, vmWith } from "../testing/admission.ts";
import { aCall } from "../testing/call.ts";
import { depsOn } from "../testing/deps.ts";
import { aVm, aVmi, KEY } from "../testing/objects.ts";

const PLUG = { name: "nic1", networkAttachmentDefinitionName: "blue", macAddress: MAC };
const PATCH = "patch virtualmachines ns/vm";
const LIVE = ["get virtualmachines ns/vm", "get virtualmachineinstances ns/vm"];
const NAD: NetworkAttachmentDefinition = {
  apiVersion: "k8s.cni.cncf.io/v1",
  kind: "NetworkAttachmentDefinition",
  metadata: { namespace: "ns", name: "blue" },
};

let store: FakeStore;
let deps: Deps;
const vms = createFakeCache<VirtualMachine>();
const vmis = createFakeCache<VirtualMachineInstance>();
const nads = createFakeCache<NetworkAttachmentDefinition>();

/** The caches learn what is on the server. */
async function catchUp(): Promise<void> {
  for (const vm of (await store.list(VIRTUAL_MACHINES)).items) vms.put(vm);
  for (const vmi of (await store.list(VIRTUAL_MACHINE_INSTANCES)).items) vmis.put(vmi);
  for (const nad of (await store.list(NETWORK_ATTACHMENT_DEFINITIONS)).items) nads.put(nad);
}

/** What was asked of the server since `from` calls; lists are the test's own. */
function callsFrom(from: number): readonly string[] {
  return store.calls.slice(from).filter((call) => !call.startsWith("list"));
}

async function ask(
  route: typeof addIface,
  body: object,
  kind: "vm" | "vmi" = "vm",
): Promise<{ readonly code: number; readonly calls: readonly string[] }> {
  const before = store.calls.length;
  const { code } = await route(deps, kind)(aCall({ body }));
  return { code, calls: callsFrom(before) };
}

async function nicNames(): Promise<readonly string[]> {
  const vm = await store.find(VIRTUAL_MACHINES, KEY);
  return (vm?.spec.template.spec.domain.devices?.interfaces ?? []).map(
    ({ name, state }) => `${name}${state === undefined ? "" : ` ${state}`}`,
  );
}

beforeEach(async () => {
  for (const cache of [vms, vmis]) cache.take(KEY);
  nads.take(NAD.metadata);
  store = createFakeStore();
  store.put(VIRTUAL_MACHINES, aVm());
  store.put(VIRTUAL_MACHINE_INSTANCES, aVmi());
  store.put(NETWORK_ATTACHMENT_DEFINITIONS, NAD);
  const ownWrites = createMutationCache(vms, vmis);
  const known = createCachedReader(store, ownWrites, [
    { type: VIRTUAL_MACHINES, cache: vms },
    { type: VIRTUAL_MACHINE_INSTANCES, cache: vmis },
    { type: NETWORK_ATTACHMENT_DEFINITIONS, cache: nads },
  ]);
  deps = depsOn(store, { cachedReader: known, ownWrites });
  await catchUp();
});

describe("one request", () => {
  test("to plug or to unplug is one write, by VM and by VMI", async () => {
    expect(await ask(addIface, PLUG)).toEqual({ code: 202, calls: [PATCH] });
    await catchUp();
    expect(await ask(removeIface, { name: "nic1" }, "vmi")).toEqual({ code: 202, calls: [PATCH] });
  });

  test("that follows its like at once knows what that one wrote", async () => {
    expect(await ask(addIface, PLUG)).toEqual({ code: 202, calls: [PATCH] });
    const second = { ...PLUG, name: "nic2", macAddress: "02:00:00:00:00:0b" };
    expect(await ask(addIface, second)).toEqual({ code: 202, calls: [PATCH] });
    expect(await nicNames()).toEqual(["default", "nic1", "nic2"]);
  });

  test("has its webhooks ask for nothing", async () => {
    const request = asked(vmWith({ bridge: {}, macAddress: MAC }), vmWith(undefined));
    const without = asked(vmWith({}), vmWith(undefined));
    expect(await validate(deps, request)).toMatchObject({ allowed: true });
    expect(await mutate(deps, without)).toMatchObject({ allowed: true });
    expect(callsFrom(0)).toEqual([]);
  });
});

describe("where the caches are behind", () => {
  test("a plug that loses is planned on what the server has", async () => {
    const spec = specWith({ bridge: {}, macAddress: "02:00:00:00:00:0c" }, BLUE);
    const other = { ...spec, networks: [...(spec.networks ?? [])] };
    store.put(VIRTUAL_MACHINES, aVm({ template: { spec: other } }));
    const nic = { ...PLUG, name: "nic2" };
    expect(await ask(addIface, nic)).toEqual({ code: 202, calls: [PATCH, ...LIVE, PATCH] });
    expect(await nicNames()).toEqual(["default", "nic1", "nic2"]);
  });

  test("an object that they do not have yet is found", async () => {
    for (const cache of [vms, vmis]) cache.take(KEY);
    nads.take(NAD.metadata);
    const { code, calls } = await ask(addIface, PLUG);
    expect({ code, last: calls.at(-1) }).toEqual({ code: 202, last: PATCH });
  });

  test("what is there already only for them is plugged again", async () => {
    await ask(addIface, PLUG);
    await catchUp();
    store.put(VIRTUAL_MACHINES, aVm());
    expect(await ask(addIface, PLUG)).toEqual({ code: 202, calls: [...LIVE, PATCH] });
    expect(await nicNames()).toEqual(["default", "nic1"]);
  });

  test("what is not there only for them is no reason to refuse", async () => {
    store.put(VIRTUAL_MACHINES, vmWith({ bridge: {}, macAddress: MAC }));
    const removal = await ask(removeIface, { name: "nic1" });
    expect(removal).toEqual({ code: 202, calls: [...LIVE, PATCH] });
    expect(await nicNames()).toEqual(["default", "nic1 absent"]);
  });

  test("a VMI is written only where no VM is named", async () => {
    const { metadata } = aVm();
    vms.put({ ...aVm(), metadata: { ...metadata, uid: "an older one" } });
    const { code, calls } = await ask(addIface, PLUG, "vmi");
    expect({ code, last: calls.at(-1) }).toEqual({ code: 202, last: PATCH });
  });

  test("a guest that runs only for the server is no VM at rest", async () => {
    const stopped = { ...aVmi(), status: { phase: "Succeeded" as const } };
    vmis.put(stopped);
    const { calls } = await ask(addIface, PLUG);
    expect(calls).toEqual([...LIVE, PATCH]);
  });
});
