// SPDX-License-Identifier: Apache-2.0
import { PODS, type Condition, type Pod } from "@patchbay/api";
import { expect, test } from "vitest";
import { aPod, aRun, aSandbox, podFacts } from "../testing/pods.ts";
import { PodWorld } from "../testing/world.ts";
import type { LivePodFacts, PodFacts } from "./facts.ts";
import { report } from "./report.ts";

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

test("a status is patched once, and not again while it says so already", async () => {
  const { world, patches, facts, current } = await aWorld(aPod());
  await report(facts(), world.deps);
  expect(patches).toMatchObject([
    { namespace: "ns", name: "a", type: "merge", subresource: "status" },
  ]);
  expect((await world.pod())?.status?.phase).toBe("Running");
  await world.put({ ...current(), ...(await world.store.find(PODS, current().metadata)) });
  await report(facts(), world.deps);
  expect(patches).toHaveLength(1);
});

test.each<{ name: string; conditions: readonly Condition[]; isBound: boolean }>([
  { name: "no condition of others", conditions: [], isBound: false },
  {
    name: "its own conditions",
    conditions: [{ type: "PodScheduled", status: "True" }],
    isBound: false,
  },
  {
    name: "a condition of others",
    conditions: [{ type: "kubevirt.io/virtual-machine-unpaused", status: "True" }],
    isBound: true,
  },
])("a status with $name is bound to a version: $isBound", async ({ conditions, isBound }) => {
  const { world, patches, facts, current } = await aWorld({ ...aPod(), status: { conditions } });
  const { resourceVersion } = current().metadata;
  await report(facts(), world.deps);
  const [{ fields }] = patches as [{ fields: { metadata?: unknown } }];
  expect(fields.metadata).toEqual(isBound ? { resourceVersion } : undefined);
});

test("a pod that may not begin is reported once, with its reason", async () => {
  const { world, facts } = await aWorld(aPod());
  const refusal = { reason: "PodForbidden", message: "spec.hostPID" };
  await report(facts({ sandboxes: [], containers: [], refusal }), world.deps);
  expect(world.notes).toEqual([{ type: "Warning", ...refusal }]);
});

test("a pod that has begun is not reported as refused", async () => {
  const { world, facts } = await aWorld(aPod());
  await report(facts({ refusal: { reason: "PodForbidden", message: "m" } }), world.deps);
  expect(world.notes).toEqual([]);
});
