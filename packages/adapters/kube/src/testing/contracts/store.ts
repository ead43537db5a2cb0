// SPDX-License-Identifier: Apache-2.0
// Contract of Store, for the fake and for an API server over HTTPS.

import { PODS } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Patch, Store } from "@patchbay/core/interfaces";

/** An API server with the namespaces `default` and `kube-system`, and no pods. */
export interface StoreBench {
  readonly store: Store;
  close(): Promise<void>;
}

const ONE = { namespace: "default", name: "one" };
const AT_ONCE = { gracePeriodSeconds: 0 };

function buildPod(name: string, more: Partial<Pod["metadata"]> = {}): Pod {
  return {
    apiVersion: "v1",
    kind: PODS.kind,
    metadata: { namespace: "default", name, ...more },
    spec: { nodeName: "n1", containers: [{ name: "c", image: "i" }] },
  };
}

function buildLabelPatch(labels: Readonly<Record<string, string | null>>): Patch {
  return { type: "merge", fields: { metadata: { labels } } };
}

/** Defines the tests `Store: NAME`, each with a new bench. */
export function describeStoreContract(name: string, make: () => Promise<StoreBench>): void {
  describe(`Store: ${name}`, () => {
    let bench: StoreBench;
    let store: Store;
    beforeEach(async () => {
      bench = await make();
      ({ store } = bench);
    });
    afterEach(async () => {
      await bench.close();
    });

    const labelsNow = async (): Promise<unknown> => (await store.find(PODS, ONE))?.metadata.labels;

    test("a created object has a uid and a version, and is found as returned", async () => {
      const made = await store.create(PODS, buildPod("one", { labels: { a: "b" } }));
      expect(made.metadata.uid).toMatch(/./);
      expect(made.metadata.resourceVersion).toMatch(/^[1-9]\d*$/);
      expect(made).toMatchObject({ metadata: { ...ONE, labels: { a: "b" } } });
      expect(await store.find(PODS, ONE)).toEqual(made);
    });

    test("rejects the creation of an existing object", async () => {
      await store.create(PODS, buildPod("one", { labels: { a: "b" } }));
      await expect(store.create(PODS, buildPod("one"))).rejects.toMatchObject({
        code: "KUBE_ALREADY_EXISTS",
      });
      expect(await labelsNow()).toEqual({ a: "b" });
    });

    test("does not find a missing object, and rejects its changes", async () => {
      const missing = { code: "KUBE_NOT_FOUND" };
      expect(await store.find(PODS, ONE)).toBeUndefined();
      await expect(store.update(PODS, buildPod("one"))).rejects.toMatchObject(missing);
      await expect(store.patch(PODS, ONE, buildLabelPatch({ a: "b" }))).rejects.toMatchObject(
        missing,
      );
    });

    test("an update replaces the object with the given version, or any version if unset", async () => {
      const made = await store.create(PODS, buildPod("one", { labels: { a: "1" } }));
      const { resourceVersion, ...timeless } = made.metadata;
      const first = await store.update(PODS, {
        ...made,
        metadata: { ...made.metadata, labels: { a: "2" } },
      });
      expect(first.metadata.uid).toBe(made.metadata.uid);
      expect(first.metadata.resourceVersion).not.toBe(resourceVersion);
      await expect(store.update(PODS, made)).rejects.toMatchObject({ code: "KUBE_CONFLICT" });
      await store.update(PODS, { ...made, metadata: { ...timeless, labels: { a: "3" } } });
      expect(await labelsNow()).toEqual({ a: "3" });
    });

    test("a merge patch sets fields, removes fields that are null, and retains the others", async () => {
      const made = await store.create(PODS, buildPod("one", { labels: { a: "1", b: "2" } }));
      const changed = await store.patch(PODS, ONE, buildLabelPatch({ a: null, c: "3" }));
      expect(changed.metadata.labels).toEqual({ b: "2", c: "3" });
      expect(changed.metadata.resourceVersion).not.toBe(made.metadata.resourceVersion);
      expect(changed.spec).toEqual(made.spec);
      expect(await store.find(PODS, ONE)).toEqual(changed);
    });

    test("a JSON patch is applied in order", async () => {
      await store.create(PODS, buildPod("one", { labels: { a: "1", "x/y": "2" } }));
      const changed = await store.patch(PODS, ONE, {
        type: "json",
        operations: [
          { op: "test", path: "/metadata/labels/a", value: "1" },
          { op: "replace", path: "/metadata/labels/a", value: "3" },
          { op: "remove", path: "/metadata/labels/x~1y" },
          { op: "add", path: "/metadata/labels/b", value: "4" },
        ],
      });
      expect(changed.metadata.labels).toEqual({ a: "3", b: "4" });
      expect(await labelsNow()).toEqual({ a: "3", b: "4" });
    });

    test.each<Patch & { readonly name: string }>([
      {
        name: "another value",
        type: "json",
        operations: [{ op: "test", path: "/metadata/labels/a", value: "0" }],
      },
      {
        name: "a missing value",
        type: "json",
        operations: [{ op: "test", path: "/metadata/labels/b", value: "0" }],
      },
    ])("a JSON patch that tests for $name is a conflict", async (patch) => {
      const { operations } = patch as Patch & { readonly type: "json" }; // all of them are
      await store.create(PODS, buildPod("one", { labels: { a: "1" } }));
      const add = { op: "add", path: "/metadata/labels/c", value: "1" } as const;
      await expect(
        store.patch(PODS, ONE, { type: "json", operations: [add, ...operations] }),
      ).rejects.toMatchObject({ code: "KUBE_CONFLICT" });
      expect(await labelsNow()).toEqual({ a: "1" });
    });

    test("a dry run returns the result and changes nothing", async () => {
      const dryRun = true;
      await store.create(PODS, buildPod("two"), { dryRun });
      expect(await store.find(PODS, { ...ONE, name: "two" })).toBeUndefined();
      await store.create(PODS, buildPod("one", { labels: { a: "1" } }));
      const answer = await store.patch(PODS, ONE, buildLabelPatch({ a: "2" }), { dryRun });
      expect(answer.metadata.labels).toEqual({ a: "2" });
      expect(await labelsNow()).toEqual({ a: "1" });
    });

    test("deletes an object; deleting it again succeeds", async () => {
      await store.create(PODS, buildPod("one"));
      await store.delete(PODS, ONE, AT_ONCE);
      await store.delete(PODS, ONE, AT_ONCE);
      expect(await store.find(PODS, ONE)).toBeUndefined();
    });

    test("does not delete another object with the same name", async () => {
      await store.create(PODS, buildPod("one"));
      const other = { ...AT_ONCE, uid: "00000000-0000-4000-8000-000000000000" };
      await expect(store.delete(PODS, ONE, other)).rejects.toMatchObject({ code: "KUBE_CONFLICT" });
      expect(await store.find(PODS, ONE)).toBeDefined();
    });

    test("lists the objects of one namespace or of all namespaces by name", async () => {
      for (const each of ["two", "one"]) await store.create(PODS, buildPod(each));
      await store.create(PODS, buildPod("three", { namespace: "kube-system" }));
      const list = async (namespace?: string): Promise<readonly string[]> => {
        const { items } = await store.list(PODS, namespace === undefined ? {} : { namespace });
        return items.map(({ metadata }) => metadata.name);
      };
      expect(await list("default")).toEqual(["one", "two"]);
      expect(await list()).toEqual(["one", "two", "three"]);
      expect(await list("kube")).toEqual([]);
    });
  });
}
