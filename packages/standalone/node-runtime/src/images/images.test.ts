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
    name: "nothing while the disk has room",
    images: [anImage("a")],
    disk: { sizeBytes: 100, freeBytes: 15 },
    want: [],
  },
  { name: "an unused image", images: [anImage("a")], want: ["id-a"] },
  { name: "not the image of a container", images: [anImage("a")], used: "id-a", want: [] },
  {
    name: "not an image that a pod's spec names",
    images: [anImage("a")],
    used: "reg/a:1",
    want: [],
  },
  {
    name: "not an image without a registry digest",
    images: [anImage("a", { digests: [] })],
    want: [],
  },
  { name: "not a user-added image", images: [anImage("a")], added: ["reg/a:1"], want: [] },
  {
    name: "not a user-added image that was also pulled",
    images: [anImage("a", { tags: ["reg/a:1", "guest:1"] })],
    want: [],
  },
  {
    name: "no more than is needed, the largest first",
    images: [anImage("a"), anImage("b", { bytes: 20 })],
    want: ["id-b"],
  },
])("selects for removal: $name", ({ images, used, added = [], disk = FULL, want }) => {
  const usedNames = new Set(used === undefined ? [] : [used]);
  const use = { images, usedNames, addedNames: new Set(added) };
  expect(selectGarbage(use, disk).map(({ id }) => id)).toEqual(want);
});

test("removes unused images from the runtime, and retains images that pods name", async () => {
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
