// SPDX-License-Identifier: Apache-2.0
import { PODS } from "@patchbay/api";
import type { Condition, Pod } from "@patchbay/api/kubernetes";
import { expect, test } from "vitest";
import { aPod, aRun, aSandbox, podFacts, UID } from "../testing/pods.ts";
import { PodWorld } from "../testing/world.ts";
import type { LivePodFacts, PodFacts } from "./facts.ts";
import { createPasses, needsPass, reportStatus } from "./reconcile-pod.ts";

/** A world that has the pod, and what was patched there. */
async function aWorld(pod: Pod) {
  const world = new PodWorld();
  await world.put(pod);
  const patches: unknown[] = [];
  const patch = world.store.patch.bind(world.store);
  world.store.patch = (type, key, change, options) => {
    patches.push({ ...key, ...change, ...options });
    return patch(type, key, change, options);
  };
  const current = (): Pod => {
    const [found] = world.pods.list();
    if (found === undefined) throw new Error("the cache has lost the pod");
    return found;
  };
  const facts = (change: Partial<PodFacts> = {}): LivePodFacts => {
    const known = { sandboxes: [aSandbox()], containers: [aRun()], ...change };
    return { ...podFacts(known), pod: current() };
  };
  return { world, patches, facts, current };
}

test("patches a status once, and not again while it is unchanged", async () => {
  const { world, patches, facts, current } = await aWorld(aPod());
  await reportStatus(facts(), world.deps);
  expect(patches).toMatchObject([
    { namespace: "ns", name: "a", type: "merge", subresource: "status" },
  ]);
  expect((await world.pod())?.status?.phase).toBe("Running");
  await world.put({ ...current(), ...(await world.store.find(PODS, current().metadata)) });
  await reportStatus(facts(), world.deps);
  expect(patches).toHaveLength(1);
});

test.each<{ name: string; conditions: readonly Condition[]; isBound: boolean }>([
  { name: "no conditions of other owners", conditions: [], isBound: false },
  {
    name: "only conditions of the kubelet",
    conditions: [{ type: "PodScheduled", status: "True" }],
    isBound: false,
  },
  {
    name: "a condition of another owner",
    conditions: [{ type: "kubevirt.io/virtual-machine-unpaused", status: "True" }],
    isBound: true,
  },
])(
  "a status with $name is sent with a resource version: $isBound",
  async ({ conditions, isBound }) => {
    const { world, patches, facts, current } = await aWorld({ ...aPod(), status: { conditions } });
    const { resourceVersion } = current().metadata;
    await reportStatus(facts(), world.deps);
    const [{ fields }] = patches as [{ fields: { metadata?: unknown } }];
    expect(fields.metadata).toEqual(isBound ? { resourceVersion } : undefined);
  },
);

test("reports a rejected pod once, with the reason", async () => {
  const { world, facts } = await aWorld(aPod());
  const rejection = { reason: "PodForbidden", message: "spec.hostPID" };
  await reportStatus(facts({ sandboxes: [], containers: [], rejection }), world.deps);
  expect(world.notes).toEqual([{ type: "Warning", ...rejection }]);
});

test("does not report a started pod as rejected", async () => {
  const { world, facts } = await aWorld(aPod());
  await reportStatus(facts({ rejection: { reason: "PodForbidden", message: "m" } }), world.deps);
  expect(world.notes).toEqual([]);
});

test("reports the results of probes without executing steps", async () => {
  const world = new PodWorld();
  await world.put(aPod());
  await world.run();
  const id = await world.running();
  const { length } = world.runtime.calls;
  const woken: string[] = [];
  const { reconcileProbes } = createPasses(world.deps, (uid) => woken.push(uid));
  await reconcileProbes(UID);
  expect(woken).toEqual([]);
  world.health.set(id, { isStarted: true, isReady: false, isUnhealthy: true });
  expect(await reconcileProbes(UID)).toEqual({ kind: "done" });
  expect(woken).toEqual([UID]);
  const ready = (await world.pod())?.status?.conditions?.find(({ type }) => type === "Ready");
  expect(ready?.status).toBe("False");
  expect(world.runtime.calls).toHaveLength(length);
});

test("runs one pass at a time over a pod, and tries again soon", async () => {
  const world = new PodWorld();
  await world.put(aPod());
  const { reconcile, reconcileProbes } = createPasses(world.deps, () => undefined);
  const first = reconcile(UID);
  const later = { kind: "after", ms: 500 };
  expect([await reconcileProbes(UID), await reconcile(UID)]).toEqual([later, later]);
  await first;
  expect(await reconcileProbes(UID)).toEqual({ kind: "done" });
});

const POD = aPod();

function withMetadata(more: object): typeof POD {
  return { ...POD, metadata: { ...POD.metadata, ...more } };
}

test.each([
  { name: "an unchanged pod", current: POD, want: false },
  {
    name: "a network that was plugged",
    current: withMetadata({ annotations: { "k8s.v1.cni.cncf.io/networks": "[]" } }),
    want: false,
  },
  { name: "a new resourceVersion", current: withMetadata({ resourceVersion: "2" }), want: false },
  {
    name: "a deletion",
    current: withMetadata({ deletionTimestamp: "2026-11-22T12:00:00Z" }),
    want: true,
  },
  { name: "a label", current: withMetadata({ labels: { a: "b" } }), want: true },
  { name: "a changed status", current: { ...POD, status: { phase: "Failed" } }, want: true },
  {
    name: "a changed spec",
    current: { ...POD, spec: { ...POD.spec, activeDeadlineSeconds: 1 } },
    want: true,
  },
] as const)("$name triggers a pass: $want", ({ current, want }) => {
  expect(needsPass({ kind: "updated", previous: POD, current })).toBe(want);
});

test("an added or deleted pod triggers a pass", () => {
  expect(needsPass({ kind: "added", current: POD })).toBe(true);
  expect(needsPass({ kind: "deleted", previous: POD })).toBe(true);
});
