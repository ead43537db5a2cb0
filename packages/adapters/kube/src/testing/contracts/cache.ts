// SPDX-License-Identifier: Apache-2.0
// Contract of Cache, for the fake and for caches that watches feed.

import type { KubeObject } from "@patchbay/api/kubernetes";
import { beforeEach, describe, expect, test } from "vitest";
import type { Cache, ObjectKey } from "@patchbay/core/interfaces";

/** A cache, and the objects that it observes. */
export interface CacheBench {
  readonly cache: Cache<KubeObject>;
  /** Creates or replaces an object. */
  put(object: KubeObject): void;
  /** Deletes an object. */
  take(key: ObjectKey): void;
}

/** Creates an empty, synchronized cache with indexes. */
export type CacheMaker = (
  indexes: Readonly<Record<string, (object: KubeObject) => readonly string[]>>,
) => CacheBench;

function buildObject(name: string, more: { uid?: string; version?: string; on?: string } = {}) {
  const { uid = `uid-${name}`, version = "1", on } = more;
  const metadata = { namespace: "ns1", name, uid, resourceVersion: version };
  const labels = on === undefined ? {} : { labels: { on } };
  return { apiVersion: "v1", kind: "Thing", metadata: { ...metadata, ...labels } };
}

function listNames(objects: readonly KubeObject[]): readonly string[] {
  return objects.map(({ metadata }) => `${metadata.namespace ?? ""}/${metadata.name}`);
}

/** Defines the tests `Cache: NAME`, each with a new bench. */
export function describeCacheContract(name: string, make: CacheMaker): void {
  describe(`Cache: ${name}`, () => {
    let bench: CacheBench;
    let changes: string[];
    beforeEach(() => {
      bench = make({ on: ({ metadata }) => Object.values(metadata.labels ?? {}) });
      changes = [];
    });

    function listen(): () => void {
      return bench.cache.onChange((change) => {
        const versions = [
          ...("previous" in change ? [change.previous] : []),
          ...("current" in change ? [change.current] : []),
        ].map(({ metadata }) => metadata.resourceVersion ?? "");
        changes.push(`${change.kind} ${versions.join(" ")}`);
      });
    }

    test("is synced and empty at first", async () => {
      await bench.cache.synced();
      expect(bench.cache.list()).toEqual([]);
      expect(bench.cache.find({ namespace: "ns1", name: "a" })).toBeUndefined();
    });

    test("finds an existing object, and lists objects by namespace and name", () => {
      const elsewhere = buildObject("z");
      bench.put(buildObject("b"));
      bench.put(buildObject("a"));
      bench.put({ ...elsewhere, metadata: { ...elsewhere.metadata, namespace: "ns0" } });
      expect(bench.cache.find({ namespace: "ns1", name: "a" })).toEqual(buildObject("a"));
      expect(listNames(bench.cache.list())).toEqual(["ns0/z", "ns1/a", "ns1/b"]);
      bench.take({ namespace: "ns1", name: "a" });
      expect(bench.cache.find({ namespace: "ns1", name: "a" })).toBeUndefined();
    });

    test("finds objects by the current values of an index", () => {
      bench.put(buildObject("b", { on: "n1" }));
      bench.put(buildObject("a", { on: "n1" }));
      bench.put(buildObject("c", { on: "n2" }));
      expect(listNames(bench.cache.listBy("on", "n1"))).toEqual(["ns1/a", "ns1/b"]);
      bench.put(buildObject("a", { version: "2", on: "n2" }));
      expect(listNames(bench.cache.listBy("on", "n1"))).toEqual(["ns1/b"]);
      expect(listNames(bench.cache.listBy("on", "n3"))).toEqual([]);
    });

    test("reports each change with the previous and the current object", () => {
      listen();
      bench.put(buildObject("a"));
      bench.put(buildObject("a", { version: "2" }));
      bench.take({ namespace: "ns1", name: "a" });
      expect(changes).toEqual(["added 1", "updated 1 2", "deleted 2"]);
    });

    test("reports a recreated object as a deletion and an addition", () => {
      bench.put(buildObject("a"));
      listen();
      bench.put(buildObject("a", { uid: "another", version: "7" }));
      expect(changes).toEqual(["deleted 1", "added 7"]);
    });

    test("reports nothing to a removed listener", () => {
      const stop = listen();
      stop();
      bench.put(buildObject("a"));
      expect(changes).toEqual([]);
    });
  });
}
