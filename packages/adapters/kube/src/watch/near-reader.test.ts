// SPDX-License-Identifier: Apache-2.0
import { CONFIG_MAPS, PODS, type Pod } from "@patchbay/api";
import { createFakeCache, createFakeStore, type FakeStore } from "@patchbay/kube/testing";
import { beforeEach, expect, test } from "vitest";
import { createNearReader } from "./near-reader.ts";
import { createOwnWrites } from "./own-writes.ts";

const KEY = { namespace: "ns", name: "a" };
const pods = createFakeCache<Pod>();
const ownWrites = createOwnWrites();
let store: FakeStore;

function podAt(resourceVersion: string): Pod {
  const metadata = { ...KEY, uid: "one", resourceVersion };
  return { apiVersion: "v1", kind: "Pod", metadata, spec: { containers: [] } };
}

beforeEach(() => {
  store = createFakeStore();
  pods.take(KEY);
});

function find() {
  return createNearReader(store, ownWrites, [{ type: PODS, cache: pods }]).find(PODS, KEY);
}

test("what the cache has is not asked for", async () => {
  pods.put(podAt("1"));
  expect((await find())?.metadata.resourceVersion).toBe("1");
  expect(store.calls).toEqual([]);
});

test("what this process wrote is known before the cache hears of it", async () => {
  pods.put(podAt("1"));
  ownWrites.note(podAt("2"));
  expect((await find())?.metadata.resourceVersion).toBe("2");
  pods.put(podAt("3"));
  expect((await find())?.metadata.resourceVersion).toBe("3");
});

test("whether what the cache does not have is there, the server is asked", async () => {
  expect(await find()).toBeUndefined();
  store.put(PODS, podAt("1"));
  expect((await find())?.metadata.name).toBe("a");
  expect(store.calls).toEqual(["get pods ns/a", "get pods ns/a"]);
});

test("a kind without a cache is asked for", async () => {
  const reader = createNearReader(store, ownWrites, [{ type: PODS, cache: pods }]);
  pods.put(podAt("1"));
  expect(await reader.find(CONFIG_MAPS, KEY)).toBeUndefined();
  expect(store.calls).toEqual(["get configmaps ns/a"]);
});
