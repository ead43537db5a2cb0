// SPDX-License-Identifier: Apache-2.0
// API server requests of one call, and behavior with stale caches.
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
import { addIface, removeIface } from "./change-vm.ts";
import { mutate } from "../admission/mutate.ts";
import { validate } from "../admission/validate.ts";
import { admissionRequest, BLUE, MAC, specWith, vmWith } from "../testing/admission.ts";
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

/** Updates the caches from the server. */
async function catchUp(): Promise<void> {
  for (const vm of (await store.list(VIRTUAL_MACHINES)).items) vms.put(vm);
  for (const vmi of (await store.list(VIRTUAL_MACHINE_INSTANCES)).items) vmis.put(vmi);
  for (const nad of (await store.list(NETWORK_ATTACHMENT_DEFINITIONS)).items) nads.put(nad);
}

/** Calls of the server after the first `from`, without lists, which only the test makes. */
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
  const mutationCache = createMutationCache(vms, vmis);
  const known = createCachedReader(store, mutationCache, [
    { type: VIRTUAL_MACHINES, cache: vms },
    { type: VIRTUAL_MACHINE_INSTANCES, cache: vmis },
    { type: NETWORK_ATTACHMENT_DEFINITIONS, cache: nads },
  ]);
  deps = depsOn(store, { cachedReader: known, mutationCache });
  await catchUp();
});

describe("a single request", () => {
  test("plugs or unplugs with one write, for a VM and a VMI", async () => {
    expect(await ask(addIface, PLUG)).toEqual({ code: 202, calls: [PATCH] });
    await catchUp();
    expect(await ask(removeIface, { name: "nic1" }, "vmi")).toEqual({ code: 202, calls: [PATCH] });
  });

  test("sees the write of the previous request", async () => {
    expect(await ask(addIface, PLUG)).toEqual({ code: 202, calls: [PATCH] });
    const second = { ...PLUG, name: "nic2", macAddress: "02:00:00:00:00:0b" };
    expect(await ask(addIface, second)).toEqual({ code: 202, calls: [PATCH] });
    expect(await nicNames()).toEqual(["default", "nic1", "nic2"]);
  });

  test("causes no requests of its webhooks", async () => {
    const request = admissionRequest(vmWith({ bridge: {}, macAddress: MAC }), vmWith(undefined));
    const without = admissionRequest(vmWith({}), vmWith(undefined));
    expect(await validate(deps, request)).toMatchObject({ allowed: true });
    expect(await mutate(deps, without)).toMatchObject({ allowed: true });
    expect(callsFrom(0)).toEqual([]);
  });
});

describe("with stale caches", () => {
  test("plans a plug after a conflict on the server's objects", async () => {
    const spec = specWith({ bridge: {}, macAddress: "02:00:00:00:00:0c" }, BLUE);
    const other = { ...spec, networks: [...(spec.networks ?? [])] };
    store.put(VIRTUAL_MACHINES, aVm({ template: { spec: other } }));
    const nic = { ...PLUG, name: "nic2" };
    expect(await ask(addIface, nic)).toEqual({ code: 202, calls: [PATCH, ...LIVE, PATCH] });
    expect(await nicNames()).toEqual(["default", "nic1", "nic2"]);
  });

  test("finds an object that the caches do not have yet", async () => {
    for (const cache of [vms, vmis]) cache.take(KEY);
    nads.take(NAD.metadata);
    const { code, calls } = await ask(addIface, PLUG);
    expect({ code, last: calls.at(-1) }).toEqual({ code: 202, last: PATCH });
  });

  test("plugs an interface that only the caches still have", async () => {
    await ask(addIface, PLUG);
    await catchUp();
    store.put(VIRTUAL_MACHINES, aVm());
    expect(await ask(addIface, PLUG)).toEqual({ code: 202, calls: [...LIVE, PATCH] });
    expect(await nicNames()).toEqual(["default", "nic1"]);
  });

  test("does not reject because of objects that only the caches lack", async () => {
    store.put(VIRTUAL_MACHINES, vmWith({ bridge: {}, macAddress: MAC }));
    const removal = await ask(removeIface, { name: "nic1" });
    expect(removal).toEqual({ code: 202, calls: [...LIVE, PATCH] });
    expect(await nicNames()).toEqual(["default", "nic1 absent"]);
  });

  test("writes a VMI only if it has no VM", async () => {
    const { metadata } = aVm();
    vms.put({ ...aVm(), metadata: { ...metadata, uid: "an older one" } });
    const { code, calls } = await ask(addIface, PLUG, "vmi");
    expect({ code, last: calls.at(-1) }).toEqual({ code: 202, last: PATCH });
  });

  test("does not treat a VM as stopped if the server has its guest", async () => {
    const stopped = { ...aVmi(), status: { phase: "Succeeded" as const } };
    vmis.put(stopped);
    const { calls } = await ask(addIface, PLUG);
    expect(calls).toEqual([...LIVE, PATCH]);
  });
});
