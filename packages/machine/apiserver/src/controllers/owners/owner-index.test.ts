// SPDX-License-Identifier: Apache-2.0
// Owners and dependents by uid.
import { expect, test } from "vitest";
import { openStore } from "../../storage/sqlite-store.ts";
import type { Store } from "../../storage/store.ts";
import { OwnerIndex } from "./owner-index.ts";

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

test("objects are found by their uid and by those of their owners, as the store changes", async () => {
  const store = openStore(":memory:", (error) => {
    throw error;
  });
  await put(store, "c", "o1");
  await put(store, "a", "o1", "o2");
  const index = new OwnerIndex(store);
  store.subscribe((changes) => {
    for (const change of changes) index.follow(change);
  });
  const names = (uid: string) => index.dependentsOf(uid).map(({ name }) => name);
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
