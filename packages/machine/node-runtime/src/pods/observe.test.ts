// SPDX-License-Identifier: Apache-2.0
import type { Pod } from "@patchbay/api";
import { AppError } from "@patchbay/core";
import { expect, test } from "vitest";
import { aContainer, aPod, IMAGE, NODE, UID } from "../testing/pods.ts";
import { PodWorld } from "../testing/world.ts";
import { sandboxConfigOf } from "../translate/sandbox.ts";
import { circumstancesOf, observe } from "./observe.ts";

async function aWorld(pod: Pod = aPod()): Promise<PodWorld> {
  const world = new PodWorld();
  await world.put(pod);
  return world;
}

function run(world: PodWorld, attempt: number, pod = aPod()): Promise<string> {
  return world.runtime.runSandbox(sandboxConfigOf(pod, attempt, NODE));
}

test("sandboxes are ordered by their number, the newest first, and only one that runs has addresses", async () => {
  const world = await aWorld();
  for (const attempt of [1, 3, 2]) await run(world, attempt);
  const [, , second] = (await observe(UID, world.deps)).sandboxes;
  world.runtime.killSandbox(second?.id ?? "");
  const { sandboxes } = await observe(UID, world.deps);
  expect(sandboxes.map(({ metadata }) => metadata.attempt)).toEqual([3, 2, 1]);
  expect(sandboxes.map(({ ips }) => ips.length)).toEqual([1, 1, 0]);
});

test("sandboxes and containers of other pods are not the pod's", async () => {
  const world = await aWorld();
  await world.run();
  await run(world, 0, aPod({}, { uid: "other", name: "b" }));
  const facts = await observe(UID, world.deps);
  expect([facts.sandboxes.length, facts.containers.length]).toEqual([1, 1]);
  expect(facts.containers[0]?.sandboxId).toBe(facts.sandboxes[0]?.id);
});

test("what the runtime removes meanwhile is not observed", async () => {
  const world = await aWorld();
  await world.run();
  world.runtime.findContainer = () => Promise.resolve(undefined);
  world.runtime.findSandbox = () => Promise.resolve(undefined);
  const facts = await observe(UID, world.deps);
  expect(facts.containers).toEqual([]);
  expect(facts.sandboxes).toMatchObject([{ state: "READY", ips: [] }]);
});

test("ids become known with their pod", async () => {
  const world = await aWorld();
  await world.run();
  const { sandboxes, containers } = await observe(UID, world.deps);
  world.runtime.stop();
  const ids = [...sandboxes, ...containers].map(({ id }) => id);
  expect(await Promise.all(ids.map((id) => world.deps.owners.find(id)))).toEqual([UID, UID]);
});

test.each([{ has: true }, { has: false }])("remains of a pod are found: $has", async ({ has }) => {
  const world = new PodWorld();
  if (has) await world.files.ensureDirectory(`/p/${UID}`);
  const facts = await observe(UID, world.deps);
  expect(facts).toMatchObject({ pod: undefined, hasRemains: has, refusal: undefined });
  expect([facts.images.size, facts.held.size]).toEqual([0, 0]);
});

test("a step that is held is known until the pod's specification changes", async () => {
  const world = await aWorld();
  const { deps } = world;
  const shown = { reason: "r", message: "m" };
  const circumstances = circumstancesOf(aPod());
  for (const name of ["volumes", "sandbox", "container compute", "container gone"]) {
    deps.pauses.fail({ scope: UID, name, circumstances }, { code: "CRI_FAILED", shown });
  }
  expect([...(await observe(UID, deps)).held.keys()]).toEqual([
    "volumes",
    "sandbox",
    "container compute",
  ]);
  await world.put(aPod({ containers: [aContainer({ tty: true })] }));
  expect((await observe(UID, deps)).held.size).toBe(0);
});

test.each<{ name: string; pod: Pod; want: boolean }>([
  { name: "asks for what it may not have", pod: aPod({ hostPID: true }), want: true },
  {
    name: "is over",
    pod: { ...aPod({ hostPID: true }), status: { phase: "Failed" } },
    want: false,
  },
  {
    name: "is being deleted",
    pod: aPod({ hostPID: true }, { deletionTimestamp: "2026-11-28T10:00:00Z" }),
    want: false,
  },
  {
    name: "asks for more than there is",
    pod: aPod({ containers: [aContainer({ resources: { requests: { memory: "200Gi" } } })] }),
    want: true,
  },
  { name: "asks for nothing special", pod: aPod(), want: false },
])("a pod that $name is refused: $want", async ({ pod, want }) => {
  const world = await aWorld(pod);
  expect((await observe(UID, world.deps)).refusal !== undefined).toBe(want);
});

test("a pod that has a sandbox is admitted, whatever there is", async () => {
  const resources = { requests: { memory: "200Gi" } };
  const world = await aWorld(aPod({ containers: [aContainer({ resources })] }));
  await run(world, 0);
  expect((await observe(UID, world.deps)).refusal).toBeUndefined();
});

const IMAGES = [{ name: "k", image: { reference: IMAGE.tags[0] ?? "" } }];

test.each<{ name: string; pod: Pod; want: number }>([
  { name: "to begin", pod: aPod(), want: 1 },
  { name: "to end", pod: aPod({}, { deletionTimestamp: "2026-11-28T10:00:00Z" }), want: 0 },
  { name: "and is over", pod: { ...aPod(), status: { phase: "Succeeded" } }, want: 0 },
])("images are looked for where a pod is $name", async ({ pod, want }) => {
  const world = await aWorld(pod);
  expect((await observe(UID, world.deps)).images.size).toBe(want);
});

test("images that a running pod has mounted are not looked for", async () => {
  const other = aContainer({ name: "other", image: "other", imagePullPolicy: "Never" });
  const world = await aWorld(aPod({ volumes: IMAGES, containers: [aContainer(), other] }));
  expect([...(await observe(UID, world.deps)).images.keys()]).toEqual([
    "localhost/launcher:dev",
    "other",
  ]);
  await world.run();
  expect([...(await observe(UID, world.deps)).images.keys()]).toEqual(["other"]);
});

test("a runtime that is unavailable is an error", async () => {
  const world = await aWorld();
  world.runtime.stop();
  await expect(observe(UID, world.deps)).rejects.toBeInstanceOf(AppError);
});
