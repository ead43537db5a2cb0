// SPDX-License-Identifier: Apache-2.0
import { PODS, type Pod } from "@patchbay/api";
import { createFakeStore, type FakeStore } from "@patchbay/kube/testing";
import { beforeEach, expect, test } from "vitest";
import { askForPods } from "./token-pod.ts";

const KEY = { namespace: "patchbay", name: "virt-handler-x" };

let store: FakeStore;

beforeEach(() => {
  store = createFakeStore();
});

function put(uid: string, spec: Partial<Pod["spec"]>, name = KEY.name): void {
  const metadata = { ...KEY, name, uid };
  store.put(PODS, { apiVersion: "v1", kind: "Pod", metadata, spec: { containers: [], ...spec } });
}

test("a pod is read once", async () => {
  put("one", { nodeName: "a" });
  const nodeOfPod = askForPods(store);
  expect(await nodeOfPod({ ...KEY, uid: "one" })).toBe("a");
  expect(await nodeOfPod({ ...KEY, uid: "one" })).toBe("a");
  expect(store.calls).toEqual(["get pods patchbay/virt-handler-x"]);
});

test("another pod of the same name is another pod", async () => {
  const nodeOfPod = askForPods(store);
  put("one", { nodeName: "a" });
  expect(await nodeOfPod({ ...KEY, uid: "one" })).toBe("a");
  put("two", { nodeName: "b" });
  expect(await nodeOfPod({ ...KEY, uid: "other" })).toBeUndefined();
  expect(await nodeOfPod({ ...KEY, uid: "two" })).toBe("b");
});

test("a pod that has no node yet is read again", async () => {
  const nodeOfPod = askForPods(store);
  expect(await nodeOfPod({ ...KEY, uid: "one" })).toBeUndefined();
  put("one", {});
  expect(await nodeOfPod({ ...KEY, uid: "one" })).toBeUndefined();
  put("one", { nodeName: "" });
  expect(await nodeOfPod({ ...KEY, uid: "one" })).toBeUndefined();
  put("one", { nodeName: "a" });
  expect(await nodeOfPod({ ...KEY, uid: "one" })).toBe("a");
});

test("no more is remembered than a cluster has nodes", async () => {
  const nodeOfPod = askForPods(store);
  for (let index = 0; index <= 5000; index += 1) {
    const name = `pod-${String(index)}`;
    put(name, { nodeName: "a" }, name);
    await nodeOfPod({ ...KEY, name, uid: name });
  }
  const before = store.calls.length;
  await nodeOfPod({ ...KEY, name: "pod-1", uid: "pod-1" });
  expect(store.calls).toHaveLength(before);
  await nodeOfPod({ ...KEY, name: "pod-0", uid: "pod-0" });
  expect(store.calls).toHaveLength(before + 1);
});
