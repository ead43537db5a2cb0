// SPDX-License-Identifier: Apache-2.0
import { CONFIG_MAPS, PODS } from "@patchbay/api";
import type { KubeObject, Pod } from "@patchbay/api/kubernetes";
import {
  createFakeCache,
  createFakeStore,
  type FakeCache,
  type FakeStore,
} from "@patchbay/kube/testing";
import { beforeEach, expect, test } from "vitest";
import { createCachedReader, createMutationCache } from "./mutation-cache.ts";

function version(resourceVersion: string | undefined, uid = "uid-1"): KubeObject {
  const versioned = resourceVersion === undefined ? {} : { resourceVersion };
  return { apiVersion: "v1", kind: "Thing", metadata: { name: "a", uid, ...versioned } };
}

test.each([
  { name: "a version older than the write", cached: version("9"), want: true },
  { name: "the version of the write", cached: version("10"), want: false },
  { name: "a newer version with more digits", cached: version("100"), want: false },
  { name: "no version", cached: version(undefined), want: true },
  { name: "a version that is not a number", cached: version("10x"), want: true },
  { name: "another object with the same name", cached: version("9", "uid-2"), want: false },
])("detects whether a cache is behind: $name", ({ cached, want }) => {
  const writes = createMutationCache();
  writes.note(version("10"));
  expect(writes.isBehind(cached)).toBe(want);
});

test("is not behind before the first write", () => {
  expect(createMutationCache().isBehind(version("1"))).toBe(false);
});

test("the last write counts, and is forgotten once the cache has it", () => {
  const writes = createMutationCache();
  writes.note(version("10"));
  writes.note(version("12"));
  expect(writes.isBehind(version("11"))).toBe(true);
  expect(writes.isBehind(version("12"))).toBe(false);
  expect(writes.isBehind(version("11"))).toBe(false);
});

test("reading the returned object again does not forget the write", () => {
  const writes = createMutationCache();
  const written = version("10");
  writes.note(written);
  expect(writes.newest(writes.newest(version("9")))).toBe(written);
  expect(writes.newest(version("9"))).toBe(written);
});

test("non-numeric versions never count as behind", () => {
  const writes = createMutationCache();
  writes.note(version("a10"));
  expect(writes.isBehind(version("a9"))).toBe(false);
});

test("newest returns the last write until the cache has it", () => {
  const writes = createMutationCache();
  const [old, written] = [version("9"), version("10")];
  expect(writes.newest(old)).toBe(old);
  writes.note(written);
  expect(writes.newest(old)).toBe(written);
  const current = version("10");
  expect(writes.newest(current)).toBe(current);
  expect(writes.newest(old)).toBe(old);
});

test.each([
  {
    name: "the cache reports it",
    emit: (cache: FakeCache<KubeObject>) => {
      cache.put(version("10"));
    },
  },
  {
    name: "the object is deleted",
    emit: (cache: FakeCache<KubeObject>) => {
      cache.take({ name: "a" });
    },
  },
])("a write is forgotten when $name", ({ emit }) => {
  const cache = createFakeCache<KubeObject>();
  cache.put(version("9"));
  const writes = createMutationCache(cache);
  writes.note(version("10"));
  cache.put(version("8"));
  expect(writes.isBehind(version("9"))).toBe(true);
  emit(cache);
  expect(writes.isBehind(version("9"))).toBe(false);
});

test("does not retain a write that the cache received before the response", () => {
  const cache = createFakeCache<KubeObject>();
  cache.put(version("10"));
  const writes = createMutationCache(cache);
  writes.note(version("10"));
  expect(writes.isBehind(version("9"))).toBe(false);
});

const KEY = { namespace: "ns", name: "a" };
const pods = createFakeCache<Pod>();
const mutationCache = createMutationCache();
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
  return createCachedReader(store, mutationCache, [{ type: PODS, cache: pods }]).find(PODS, KEY);
}

test("objects in the cache are not read from the server", async () => {
  pods.put(podAt("1"));
  expect((await find())?.metadata.resourceVersion).toBe("1");
  expect(store.calls).toEqual([]);
});

test("finds this process's own write before the cache receives it", async () => {
  pods.put(podAt("1"));
  mutationCache.note(podAt("2"));
  expect((await find())?.metadata.resourceVersion).toBe("2");
  pods.put(podAt("3"));
  expect((await find())?.metadata.resourceVersion).toBe("3");
});

test("objects missing from the cache are read from the server", async () => {
  expect(await find()).toBeUndefined();
  store.put(PODS, podAt("1"));
  expect((await find())?.metadata.name).toBe("a");
  expect(store.calls).toEqual(["get pods ns/a", "get pods ns/a"]);
});

test("a kind without a cache is read from the server", async () => {
  const reader = createCachedReader(store, mutationCache, [{ type: PODS, cache: pods }]);
  pods.put(podAt("1"));
  expect(await reader.find(CONFIG_MAPS, KEY)).toBeUndefined();
  expect(store.calls).toEqual(["get configmaps ns/a"]);
});
