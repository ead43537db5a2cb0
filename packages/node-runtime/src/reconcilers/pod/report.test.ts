// SPDX-License-Identifier: Apache-2.0
// A status that says nothing new is not written, whatever a server has filled in.
import { PODS, type Pod } from "@patchbay/api";
import type { Cni } from "@patchbay/ports";
import { createFakeStore } from "@patchbay/ports/testing";
import { expect, test } from "vitest";
import type { Deps } from "../../deps.ts";
import { aLauncherPod, aPodFacts } from "../../pod/testing.ts";
import { report } from "./report.ts";

const KEY = { namespace: "ns", name: "a" };
const FACTS = aPodFacts({ kind: "running", init: { pid: 1, startTime: "1" } });

function depsOf(store: ReturnType<typeof createFakeStore>): Deps {
  const clock = { now: () => 0, monotonicMs: () => 0, sleep: () => Promise.resolve() };
  const unused = {} as Cni; // reporting asks nobody but the store and the clock
  return { store, clock, cni: unused, hostIp: "192.0.2.1" } as unknown as Deps;
}

/** The pod as a real server gives it back: nulls, empty objects and a class that nobody wrote. */
function filledIn(pod: Pod): Pod {
  const status = {
    ...pod.status,
    qosClass: "Burstable",
    conditions: [
      { type: "PodReadyToStartContainers", status: "True" as const },
      ...(pod.status?.conditions ?? []).map((one) => ({ ...one, lastProbeTime: null })),
    ],
    containerStatuses: pod.status?.containerStatuses?.map((one) => ({ ...one, lastState: {} })),
  };
  return { ...pod, status } as Pod;
}

async function storedPod(store: ReturnType<typeof createFakeStore>): Promise<Pod> {
  const pod = await store.find(PODS, KEY);
  if (pod === undefined) throw new Error("no pod");
  return pod;
}

test("the second report of a running pod writes nothing on a server that fills things in", async () => {
  const store = createFakeStore();
  store.put(PODS, aLauncherPod());
  const deps = depsOf(store);
  await report(FACTS, undefined, deps);
  store.put(PODS, filledIn(await storedPod(store)));
  const before = store.calls.length;
  await report({ ...FACTS, pod: await storedPod(store) }, undefined, deps);
  expect(store.calls.slice(before)).toEqual([`get pods ns/a`]);
});

test("a condition of somebody else stays when the pod ends", async () => {
  const store = createFakeStore();
  store.put(PODS, aLauncherPod());
  const deps = depsOf(store);
  await report(FACTS, undefined, deps);
  store.put(PODS, filledIn(await storedPod(store)));
  const ended = aPodFacts({ kind: "exited", exitCode: 0 }, { pod: await storedPod(store) });
  await report(ended, undefined, deps);
  const { status } = await storedPod(store);
  expect(status?.phase).toBe("Succeeded");
  expect(status?.conditions?.map(({ type }) => type)).toContain("PodReadyToStartContainers");
});
