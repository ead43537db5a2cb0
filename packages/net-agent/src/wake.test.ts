// SPDX-License-Identifier: Apache-2.0
import { names, type KubeObject, type NetworkAttachmentDefinition, type Pod } from "@patchbay/api";
import type { Cache, Change } from "@patchbay/ports";
import { describe, expect, test } from "vitest";
import { askedOf, networksAskedBy, wakePods } from "./wake.ts";

function aPod(name: string, networks?: string, generation = 1): Pod {
  const annotations = networks === undefined ? {} : { [names.NETWORKS_ANNOTATION]: networks };
  return {
    ...{ apiVersion: "v1", kind: "Pod", spec: { containers: [] } },
    metadata: { namespace: "ns1", name, uid: `uid-${name}`, generation, annotations },
  };
}

function aNad(name: string): NetworkAttachmentDefinition {
  const kind = "NetworkAttachmentDefinition";
  return { apiVersion: "k8s.cni.cncf.io/v1", kind, metadata: { namespace: "ns1", name } };
}

/** A cache that tells what the test says. */
function aCache<T extends KubeObject>(
  objects: readonly T[] = [],
): Cache<T> & { tell: (change: Change<T>) => void } {
  const listeners: ((change: Change<T>) => void)[] = [];
  return {
    find: () => undefined,
    list: () => objects,
    listBy: (index, value) =>
      // The index of the test's cache is the one of pods.
      index === "network"
        ? objects.filter((o) => networksAskedBy(o as unknown as Pod).includes(value))
        : [],
    onChange: (listener) => {
      listeners.push(listener);
      return () => undefined;
    },
    synced: () => Promise.resolve(),
    tell: (change) => {
      for (const listener of listeners) listener(change);
    },
  };
}

describe("a change wakes", () => {
  const blue = aNad("blue");
  const pods = aCache([
    aPod("asks", "blue"),
    aPod("asks-too", "red,ns1/blue"),
    aPod("other", "red"),
  ]);
  const nads = aCache<NetworkAttachmentDefinition>();
  const woken: string[] = [];
  wakePods({ add: (key) => woken.push(key) }, { pods, nads });

  test.each([
    {
      name: "its pod",
      tell: () => {
        pods.tell({ kind: "added", current: aPod("p") });
      },
      want: ["ns1/p"],
    },
    {
      name: "its pod, which is gone",
      tell: () => {
        pods.tell({ kind: "deleted", previous: aPod("p") });
      },
      want: ["ns1/p"],
    },
    {
      name: "the pods that ask for a network that comes",
      tell: () => {
        nads.tell({ kind: "added", current: blue });
      },
      want: ["ns1/asks", "ns1/asks-too"],
    },
    {
      name: "the pods that ask for a network that goes",
      tell: () => {
        nads.tell({ kind: "deleted", previous: blue });
      },
      want: ["ns1/asks", "ns1/asks-too"],
    },
    {
      name: "nobody by a network that nobody asks for",
      tell: () => {
        nads.tell({ kind: "added", current: aNad("x") });
      },
      want: [],
    },
  ])("$name", ({ tell, want }) => {
    woken.length = 0;
    tell();
    expect(woken).toEqual(want);
  });
});

test.each([
  { name: "of its own namespace where none is named", networks: "a", want: ["ns1/a"] },
  {
    name: "of its own where an empty one is named",
    networks: '[{"name":"a","namespace":""}]',
    want: ["ns1/a"],
  },
  { name: "of others", networks: "x/a@net1,b", want: ["x/a", "ns1/b"] },
  { name: "that cannot be read", networks: "[null]", want: [] },
  { name: "without a list", networks: undefined, want: [] },
])("the networks of a pod: $name", ({ networks, want }) => {
  expect(networksAskedBy(aPod("p", networks))).toEqual(want);
});

test("what is wanted of a pod changes with its annotation, with its spec, and when it is gone", () => {
  const { namespace = "", name, uid = "", generation = 0 } = aPod("p").metadata;
  const bare: Pod = { ...aPod("p"), metadata: { namespace, name, uid, generation } };
  const all = [aPod("p", "a"), aPod("p", "b"), aPod("p", "a", 2), aPod("p"), undefined].map(
    askedOf,
  );
  expect(new Set(all).size).toBe(5);
  expect(askedOf(bare)).toBe(askedOf(aPod("p")));
});
