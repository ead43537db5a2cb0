// SPDX-License-Identifier: Apache-2.0
import { names, type NetworkAttachmentDefinition } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import { createFakeCache } from "@patchbay/kube/testing";
import { createFakeFiles } from "@patchbay/os/testing";
import { beforeEach, describe, expect, test } from "vitest";
import type { CheckedDefinition } from "./deps.ts";
import { watchLeases, wakeByDirectories, wakeByLinks, wakeByObjects } from "./wake.ts";

const NOTHING: CheckedDefinition = {
  uid: "u",
  links: new Map(),
  isUnfitForGuests: false,
  fullLeaseDirectories: [],
  reasons: [],
  reported: undefined,
  isWithoutStatus: false,
  staleSinceMs: undefined,
  nodesReadMs: undefined,
};

function aPod(networks: string, errors?: string): Pod {
  const annotations = {
    [names.NETWORKS_ANNOTATION]: networks,
    ...(errors === undefined ? {} : { [names.ATTACHMENT_ERRORS_ANNOTATION]: errors }),
  };
  return {
    apiVersion: "v1",
    kind: "Pod",
    spec: { containers: [] },
    metadata: { namespace: "ns", name: "p", uid: "u", annotations },
  };
}

function aNad(name: string): NetworkAttachmentDefinition {
  const kind = "NetworkAttachmentDefinition";
  return { apiVersion: "k8s.cni.cncf.io/v1", kind, metadata: { namespace: "ns", name } };
}

const woken: string[] = [];
const queue = {
  add: (key: string) => woken.push(key),
  addAfter: (key: string, ms: number) => woken.push(`${key} after ${String(ms)}`),
};

beforeEach(() => {
  woken.length = 0;
});

describe("changes of objects wake", () => {
  const nads = createFakeCache<NetworkAttachmentDefinition>();
  const pods = createFakeCache<Pod>();
  const checkedDefinitions = new Map<string, CheckedDefinition>();
  const policies: (() => void)[] = [];
  const policy = {
    onChange: (listener: () => void) => policies.push(listener),
    isEnforced: true,
    describeSetting: () => "",
    current: () => {
      throw new Error("nobody asks");
    },
  };
  nads.put(aNad("blue"));
  nads.put(aNad("red"));
  wakeByObjects(queue, { nads, pods, policy, checkedDefinitions });

  beforeEach(() => {
    checkedDefinitions.clear();
    pods.take({ namespace: "ns", name: "p" });
    woken.length = 0;
  });

  test("the changed definition", () => {
    nads.put({ ...aNad("blue"), spec: { config: "x" } });
    expect(woken).toEqual(["ns/blue"]);
  });

  test("all definitions after a policy change", () => {
    for (const listener of policies) listener();
    expect(woken).toEqual(["ns/blue", "ns/red"]);
  });

  test("no definition when the pod's networks have no problem", () => {
    pods.put(aPod("blue"));
    expect(woken).toEqual([]);
  });

  test("the networks of a pod whose attachment has failed, once", () => {
    pods.put(aPod("blue"));
    pods.put(aPod("blue", "{}"));
    pods.put(aPod("blue", "{}"));
    expect(woken).toEqual(["ns/blue"]);
  });

  test.each([
    { name: "with a reported problem", more: { reported: "no" } },
    { name: "that guests cannot use", more: { isUnfitForGuests: true } },
  ])("a network $name, when a pod requests it, until that is resolved", ({ more }) => {
    checkedDefinitions.set("ns/blue", { ...NOTHING, ...more });
    pods.put(aPod("blue,red"));
    expect(woken).toEqual(["ns/blue"]);
    pods.take({ namespace: "ns", name: "p" });
    expect(woken).toEqual(["ns/blue", "ns/blue"]);
  });
});

test("wakes all definitions shortly after an installation", async () => {
  const nads = createFakeCache<NetworkAttachmentDefinition>();
  nads.put(aNad("blue"));
  const files = createFakeFiles();
  const { signal } = new AbortController();
  wakeByDirectories(queue, { directories: ["/opt/cni/bin"], files, signal }, { nads });
  await files.writeAtomic("/opt/cni/bin/macvlan", "");
  expect(woken).toContain("ns/blue after 1000");
});

test.each([
  { name: "stays", was: "", is: "", want: [] },
  { name: "comes", was: undefined, is: "", want: ["ns/blue"] },
  { name: "goes", was: "", is: undefined, want: ["ns/blue"] },
  { name: "becomes a bridge", was: "dummy", is: "bridge", want: ["ns/blue"] },
])("wakes for a link that $name", ({ was, is, want }) => {
  const judged = new Map([
    ["ns/blue", { ...NOTHING, links: new Map([["eth1", was]]) }],
    ["ns/red", NOTHING],
  ]);
  wakeByLinks(queue, new Map(is === undefined ? [] : [["eth1", is]]), judged);
  expect(woken).toEqual(want);
});

test("watches the leases of exhausted networks only", async () => {
  const files = createFakeFiles();
  const stop = new AbortController();
  const leases = watchLeases(files, queue.add, stop.signal);
  const touch = async (): Promise<readonly string[]> => {
    woken.length = 0;
    await files.writeAtomic("/leases/blue/10.0.0.1", "");
    await files.remove("/leases/blue/10.0.0.1");
    return [...new Set(woken)];
  };
  leases.set("ns/blue", []);
  expect(await touch()).toEqual([]);
  leases.set("ns/blue", ["/leases/blue"]);
  leases.set("ns/blue", ["/leases/blue"]);
  expect(await touch()).toEqual(["ns/blue"]);
  leases.set("ns/blue", []);
  expect(await touch()).toEqual([]);
  leases.set("ns/blue", ["/leases/blue"]);
  stop.abort();
  expect(await touch()).toEqual([]);
});
