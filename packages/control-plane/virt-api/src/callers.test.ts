// SPDX-License-Identifier: Apache-2.0
// Identity of callers behind the front proxy.
import { Socket } from "node:net";
import { expect, test, beforeEach } from "vitest";
import { ClientAuthority } from "@patchbay/daemon";
import { findRemoteUser, createPodNodeLookup } from "./http/calls.ts";
import { PODS } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import { createFakeStore, type FakeStore } from "@patchbay/kube/testing";

/** An authority that accepts every client or none. */
function vouching(isKnown: boolean): ClientAuthority {
  const authority = new ClientAuthority({
    read: () => Promise.resolve({ caPem: "", names: [] }),
    onChange: () => undefined,
  });
  return Object.assign(authority, { isTrustedClient: () => isKnown });
}

const ALICE = { "x-remote-user": ["alice"], "x-remote-group": ["a", "b"] };

test.each<{ name: string; headers: Record<string, string[]>; known?: boolean; want: unknown }>([
  {
    name: "a user and their groups",
    headers: ALICE,
    known: true,
    want: { name: "alice", groups: ["a", "b"] },
  },
  {
    name: "a user without groups",
    headers: { "x-remote-user": ["alice"] },
    known: true,
    want: { name: "alice", groups: [] },
  },
  {
    name: "a user with the claims of the token",
    headers: {
      "x-remote-user": ["agent"],
      "x-remote-extra-authentication.kubernetes.io%2fpod-name": ["pod"],
      "x-remote-extra-%zz": ["unreadable"],
    },
    known: true,
    want: {
      name: "agent",
      groups: [],
      extra: { "authentication.kubernetes.io/pod-name": ["pod"] },
    },
  },
  { name: "no user without a user header", headers: {}, known: true, want: undefined },
  { name: "no user from an unknown client", headers: ALICE, known: false, want: undefined },
  { name: "no user without a front proxy", headers: ALICE, want: undefined },
])("$name", ({ headers, known, want }) => {
  const frontProxy = known === undefined ? undefined : vouching(known);
  const request = { socket: new Socket(), headersDistinct: headers };
  expect(findRemoteUser(frontProxy, request)).toEqual(want);
});

const KEY = { namespace: "patchbay", name: "virt-handler-x" };

let store: FakeStore;

beforeEach(() => {
  store = createFakeStore();
});

function put(uid: string, spec: Partial<Pod["spec"]>, name = KEY.name): void {
  const metadata = { ...KEY, name, uid };
  store.put(PODS, { apiVersion: "v1", kind: "Pod", metadata, spec: { containers: [], ...spec } });
}

test("reads each pod once", async () => {
  put("one", { nodeName: "a" });
  const findPodNode = createPodNodeLookup(store);
  expect(await findPodNode({ ...KEY, uid: "one" })).toBe("a");
  expect(await findPodNode({ ...KEY, uid: "one" })).toBe("a");
  expect(store.calls).toEqual(["get pods patchbay/virt-handler-x"]);
});

test("does not reuse the node of another pod with the same name", async () => {
  const findPodNode = createPodNodeLookup(store);
  put("one", { nodeName: "a" });
  expect(await findPodNode({ ...KEY, uid: "one" })).toBe("a");
  put("two", { nodeName: "b" });
  expect(await findPodNode({ ...KEY, uid: "other" })).toBeUndefined();
  expect(await findPodNode({ ...KEY, uid: "two" })).toBe("b");
});

test("reads an unscheduled pod again", async () => {
  const findPodNode = createPodNodeLookup(store);
  expect(await findPodNode({ ...KEY, uid: "one" })).toBeUndefined();
  put("one", {});
  expect(await findPodNode({ ...KEY, uid: "one" })).toBeUndefined();
  put("one", { nodeName: "" });
  expect(await findPodNode({ ...KEY, uid: "one" })).toBeUndefined();
  put("one", { nodeName: "a" });
  expect(await findPodNode({ ...KEY, uid: "one" })).toBe("a");
});

test("limits the cache to the largest number of nodes", async () => {
  const findPodNode = createPodNodeLookup(store);
  for (let index = 0; index <= 5000; index += 1) {
    const name = `pod-${String(index)}`;
    put(name, { nodeName: "a" }, name);
    await findPodNode({ ...KEY, name, uid: name });
  }
  const before = store.calls.length;
  await findPodNode({ ...KEY, name: "pod-1", uid: "pod-1" });
  expect(store.calls).toHaveLength(before);
  await findPodNode({ ...KEY, name: "pod-0", uid: "pod-0" });
  expect(store.calls).toHaveLength(before + 1);
});
