// SPDX-License-Identifier: Apache-2.0
// Concurrent requests on one VM.
import { VIRTUAL_MACHINES, type VirtualMachine } from "@patchbay/api";
import { createFakeStore, type FakeStore } from "@patchbay/kube/testing";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { startBench, type Bench } from "../testing/bench.ts";
import { aVm, KEY } from "../testing/objects.ts";

const VM_PATH = "/apis/subresources.kubevirt.io/v1/namespaces/ns/virtualmachines/vm";
const NAMES = Array.from({ length: 10 }, (_, index) => `nic${String(index)}`);

let store: FakeStore;
let bench: Bench;

beforeAll(async () => {
  bench = await startBench(() => store);
});

afterAll(async () => {
  await bench.stop();
});

function vmWith(nics: readonly string[]): VirtualMachine {
  const networks = nics.map((name) => ({ name, multus: { networkName: "blue" } }));
  const interfaces = nics.map((name) => ({ name, bridge: {} }));
  return aVm({ template: { spec: { domain: { devices: { interfaces } }, networks } } });
}

beforeEach(() => {
  store = createFakeStore();
  store.put(VIRTUAL_MACHINES, vmWith(NAMES));
});

async function ifaceNames(): Promise<readonly string[]> {
  const vm = await store.find(VIRTUAL_MACHINES, KEY);
  return (vm?.spec.template.spec.domain.devices?.interfaces ?? []).map(({ name }) => name);
}

function remove(name: string) {
  return bench.send("PUT", `${VM_PATH}/removeinterface`, { text: JSON.stringify({ name }) });
}

test("ten concurrent removeinterface requests all succeed", async () => {
  const answers = await Promise.all(NAMES.map(remove));
  expect(answers.map(({ code }) => code)).toEqual(NAMES.map(() => 202));
  expect(await ifaceNames()).toEqual([]);
});

/** Another writer removes the last iface before each write, until this number remains. */
function takeBeforeWrites(left: number, count: number): void {
  if (count === 0) return;
  store.beforeNextWrite(() => {
    store.put(VIRTUAL_MACHINES, vmWith(NAMES.slice(0, left)));
    takeBeforeWrites(left - 1, count - 1);
  });
}

test("a request with seven conflicts succeeds in the eighth attempt, on fresh objects", async () => {
  takeBeforeWrites(9, 7);
  expect(await remove("nic0")).toMatchObject({ code: 202 });
  expect(await ifaceNames()).toEqual(["nic1", "nic2"]);
});

test("a stop is planned again after a conflict", async () => {
  store.put(VIRTUAL_MACHINES, aVm({ runStrategy: "Always" }));
  store.beforeNextWrite(() => {
    store.put(VIRTUAL_MACHINES, aVm({ runStrategy: "Halted" }));
  });
  const answer = await bench.send("PUT", `${VM_PATH}/stop`);
  expect(answer).toMatchObject({ code: 409, body: { message: "VM is not running" } });
});
