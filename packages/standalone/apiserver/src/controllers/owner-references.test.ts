// SPDX-License-Identifier: Apache-2.0
// What does one owner mean for one object?
import { expect, test } from "vitest";
import { NODE } from "../kinds/cluster/node.ts";
import { CONFIG_MAP } from "../kinds/config/config-map.ts";
import type { Kind } from "../kinds/kind.ts";
import type { KubeObject, Meta } from "../objects/object.ts";
import { openStore } from "../storage/sqlite-store.ts";
import type { Store } from "../storage/store.ts";
import { OwnerIndex, classifyOwners } from "./owner-references.ts";

const KINDS: readonly Kind[] = [CONFIG_MAP, NODE];
const IN_A = { bucket: "/configmaps", namespace: "a", name: "dependent" };
const NOWHERE = { bucket: "/nodes", namespace: "", name: "dependent" };
const MAP = { apiVersion: "v1", kind: "ConfigMap" };

function object(kind: string, metadata: Meta): KubeObject {
  return { apiVersion: "v1", kind, metadata };
}

async function storeWithOwners() {
  const store = openStore(":memory:", (error) => {
    throw error;
  });
  const going = { deletionTimestamp: "2026-01-01T00:00:00Z", finalizers: ["foregroundDeletion"] };
  await store.write((transaction) => {
    const map = { bucket: "/configmaps", namespace: "a" };
    transaction.put({ ...map, name: "here" }, object("ConfigMap", { name: "here", uid: "u1" }));
    transaction.put(
      { ...map, name: "going" },
      object("ConfigMap", { name: "going", uid: "u2", ...going }),
    );
    const node = { bucket: "/nodes", namespace: "", name: "node" };
    transaction.put(node, object("Node", { name: "node", uid: "u3" }));
  });
  return store;
}

test.each([
  { what: "there", owner: { ...MAP, name: "here", uid: "u1" }, at: IN_A, want: "live" },
  { what: "recreated", owner: { ...MAP, name: "here", uid: "old" }, at: IN_A, want: "deleted" },
  { what: "misnamed", owner: { ...MAP, name: "there", uid: "u1" }, at: IN_A, want: "deleted" },
  {
    what: "elsewhere",
    owner: { ...MAP, name: "here", uid: "u1" },
    at: { ...IN_A, namespace: "b" },
    want: "deleted",
  },
  { what: "waiting", owner: { ...MAP, name: "going", uid: "u2" }, at: IN_A, want: "waiting" },
  {
    what: "cluster-scoped",
    owner: { apiVersion: "v1", kind: "Node", name: "node", uid: "u3" },
    at: IN_A,
    want: "live",
  },
  {
    what: "of an unknown kind",
    owner: { apiVersion: "x/v1", kind: "X", name: "n", uid: "u4" },
    at: IN_A,
    want: "unresolved",
  },
  {
    what: "of an unknown kind and known to be gone",
    owner: { apiVersion: "x/v1", kind: "X", name: "n", uid: "dead" },
    at: IN_A,
    want: "deleted",
  },
  {
    what: "namespaced, with a cluster-scoped dependent",
    owner: { ...MAP, name: "here", uid: "u1" },
    at: NOWHERE,
    want: "unresolved",
  },
])("an owner that is $what is $want", async ({ owner, at, want }) => {
  const store = await storeWithOwners();
  const dependent = object("ConfigMap", { name: "dependent", ownerReferences: [owner] });
  const owners = classifyOwners(at, dependent, {
    store,
    registry: { findByKind: (_version, name) => KINDS.find(({ kind }) => kind === name) },
    isDeleted: (uid) => uid === "dead",
  });
  expect({ ...owners, [want]: owners[want as keyof typeof owners].length }).toEqual({
    live: [],
    deleted: [],
    waiting: [],
    unresolved: [],
    [want]: 1,
  });
  await store.close();
});

function at(name: string) {
  return { bucket: "/configmaps", namespace: "n", name };
}

async function put(store: Store, name: string, ...owners: readonly string[]): Promise<void> {
  const ownerReferences = owners.map((uid) => ({ apiVersion: "v1", kind: "X", name: uid, uid }));
  await store.write((transaction) =>
    transaction.put(at(name), {
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name, uid: `uid-${name}`, ownerReferences },
    }),
  );
}

test("finds objects by their uid and their owners' uids as the store changes", async () => {
  const store = openStore(":memory:", (error) => {
    throw error;
  });
  await put(store, "c", "o1");
  await put(store, "a", "o1", "o2");
  const index = new OwnerIndex(store);
  store.subscribe((changes) => {
    for (const change of changes) index.apply(change);
  });
  const names = (uid: string) => index.listDependents(uid).map(({ name }) => name);
  expect([names("o1"), names("o2"), names("o3")]).toEqual([["a", "c"], ["a"], []]);
  expect([index.findByUid("uid-a"), index.findByUid("o1")]).toEqual([at("a"), undefined]);

  await put(store, "b", "o1");
  await put(store, "a", "o3");
  expect([names("o1"), names("o2"), names("o3")]).toEqual([["b", "c"], [], ["a"]]);

  await store.write((transaction) =>
    transaction.remove(at("c"), {
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name: "c", uid: "uid-c" },
    }),
  );
  expect([names("o1"), index.findByUid("uid-c")]).toEqual([["b"], undefined]);
  await store.close();
});
