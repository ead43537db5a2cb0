// SPDX-License-Identifier: Apache-2.0
import { names, type NetworkAttachmentDefinition } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import { createFakeCache } from "@patchbay/kube/testing";
import { describe, expect, test } from "vitest";
import { serializeInputs, BY_NETWORK, listRequestedNetworks, wakePods } from "./wake.ts";

function aPod(name: string, networks?: string, generation = 1): Pod {
  const annotations = networks === undefined ? {} : { [names.NETWORKS_ANNOTATION]: networks };
  return {
    apiVersion: "v1",
    kind: "Pod",
    spec: { containers: [] },
    metadata: { namespace: "ns1", name, uid: `uid-${name}`, generation, annotations },
  };
}

function aNad(name: string): NetworkAttachmentDefinition {
  const kind = "NetworkAttachmentDefinition";
  return { apiVersion: "k8s.cni.cncf.io/v1", kind, metadata: { namespace: "ns1", name } };
}

describe("a change wakes", () => {
  const woken: string[] = [];
  const pods = createFakeCache<Pod>({ [BY_NETWORK]: listRequestedNetworks });
  const nads = createFakeCache<NetworkAttachmentDefinition>();
  for (const pod of [
    aPod("asks", "blue"),
    aPod("asks-too", "red,ns1/blue"),
    aPod("other", "red"),
  ]) {
    pods.put(pod);
  }
  const changed: (() => void)[] = [];
  const policy = { onChange: (listener: () => void) => changed.push(listener) };
  pods.put(aPod("asks-nothing"));
  wakePods({ add: (key) => woken.push(key) }, { pods, nads, policy });

  test.each([
    {
      name: "the changed pod",
      change: () => {
        pods.put(aPod("p"));
      },
      want: ["ns1/p"],
    },
    {
      name: "the deleted pod",
      change: () => {
        pods.take(aPod("p").metadata);
      },
      want: ["ns1/p"],
    },
    {
      name: "the pods that request a new network",
      change: () => {
        nads.put(aNad("blue"));
      },
      want: ["ns1/asks", "ns1/asks-too"],
    },
    {
      name: "the pods that request a deleted network",
      change: () => {
        nads.take(aNad("blue").metadata);
      },
      want: ["ns1/asks", "ns1/asks-too"],
    },
    {
      name: "all pods that request networks, for a changed policy",
      change: () => {
        for (const listener of changed) listener();
      },
      want: ["ns1/asks", "ns1/asks-too", "ns1/other"],
    },
    {
      name: "no pods for a network that no pod requests",
      change: () => {
        nads.put(aNad("x"));
      },
      want: [],
    },
  ])("$name", ({ change, want }) => {
    woken.length = 0;
    change();
    expect(woken).toEqual(want);
  });
});

test.each([
  { name: "in its own namespace by default", networks: "a", want: ["ns1/a"] },
  {
    name: "in its own namespace for an empty namespace",
    networks: '[{"name":"a","namespace":""}]',
    want: ["ns1/a"],
  },
  { name: "in a different namespace", networks: "x/a@net1,b", want: ["x/a", "ns1/b"] },
  { name: "with an unreadable list", networks: "[null]", want: [] },
  { name: "without a list", networks: undefined, want: [] },
])("lists the networks of a pod: $name", ({ networks, want }) => {
  expect(listRequestedNetworks(aPod("p", networks))).toEqual(want);
});

test("a pod's inputs change with its annotation, its spec and its deletion", () => {
  const { namespace = "", name, uid = "", generation = 0 } = aPod("p").metadata;
  const bare: Pod = { ...aPod("p"), metadata: { namespace, name, uid, generation } };
  const all = [aPod("p", "a"), aPod("p", "b"), aPod("p", "a", 2), aPod("p"), undefined].map(
    serializeInputs,
  );
  expect(new Set(all).size).toBe(5);
  expect(serializeInputs(bare)).toBe(serializeInputs(aPod("p")));
});
