// SPDX-License-Identifier: Apache-2.0
import type { Pod } from "@patchbay/api/kubernetes";
import type { ContainerImage } from "@patchbay/core/interfaces";
import { createFakeContainerRuntime } from "@patchbay/cri/testing";
import { createFakeCache } from "@patchbay/kube/testing";
import { createFakeClock, createFakeFiles } from "@patchbay/os/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { expect, test } from "vitest";
import { aContainer, aPod } from "../testing/pods.ts";
import { selectGarbage, removeGarbage } from "./garbage.ts";

function anImage(name: string, change: Partial<ContainerImage> = {}): ContainerImage {
  const digests = [`reg/${name}@sha256:0`];
  return { id: `id-${name}`, tags: [`reg/${name}:1`], digests, bytes: 10, username: "", ...change };
}

/** A short name, as people write it. */
const KERNEL = [{ name: "kernel", image: { reference: "c" } }];
const FULL = { sizeBytes: 100, freeBytes: 10 };

test.each<{
  name: string;
  images: readonly ContainerImage[];
  used?: string;
  added?: readonly string[];
  disk?: typeof FULL;
  want: readonly string[];
}>([
  {
    name: "while there is room",
    images: [anImage("a")],
    disk: { sizeBytes: 100, freeBytes: 15 },
    want: [],
  },
  { name: "what nobody uses", images: [anImage("a")], want: ["id-a"] },
  { name: "not what a container runs from", images: [anImage("a")], used: "id-a", want: [] },
  { name: "not what a pod names", images: [anImage("a")], used: "reg/a:1", want: [] },
  { name: "not what came by hand", images: [anImage("a", { digests: [] })], want: [] },
  { name: "not what was added", images: [anImage("a")], added: ["reg/a:1"], want: [] },
  {
    name: "not what was added, and fetched by another's name",
    images: [anImage("a", { tags: ["reg/a:1", "guest:1"] })],
    want: [],
  },
  {
    name: "no more than is needed, the largest first",
    images: [anImage("a"), anImage("b", { bytes: 20 })],
    want: ["id-b"],
  },
])("goes: $name", ({ images, used, added = [], disk = FULL, want }) => {
  const usedNames = new Set(used === undefined ? [] : [used]);
  const use = { images, usedNames, addedNames: new Set(added) };
  expect(selectGarbage(use, disk).map(({ id }) => id)).toEqual(want);
});

test("the runtime is asked to remove it, and pods keep what they name", async () => {
  const runtime = createFakeContainerRuntime();
  const pods = createFakeCache<Pod>();
  runtime.putImage(anImage("a"));
  runtime.putImage(anImage("b"));
  runtime.putImage(anImage("c", { tags: ["docker.io/library/c:latest"] }));
  pods.put(aPod({ containers: [aContainer({ image: "reg/a:1" })], volumes: KERNEL }));
  const files = {
    ...createFakeFiles(),
    readSpace: () => Promise.resolve({ sizeBytes: 100, freeBytes: 1 }),
  };
  const deps = { runtime, pods, files, clock: createFakeClock(), log: createFakeLogger() };
  const listAdded = () => Promise.resolve([]);
  const grants = { retainOnly: () => Promise.resolve() };
  await removeGarbage({ ...deps, podsDir: "/p", listAdded, grants });
  expect(runtime.calls).toEqual(["removeImage id-b"]);
});
