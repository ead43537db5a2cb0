// SPDX-License-Identifier: Apache-2.0
// What becomes of volumes that are images on a server that does not know them?
import { expect, test } from "vitest";
import type { KubeObject } from "../objects/object.ts";
import { dropImageVolumes } from "./image-volumes.ts";

function podWith(volumes: readonly unknown[], kind = "Pod"): KubeObject {
  return { apiVersion: "v1", kind, metadata: { name: "p" }, spec: { volumes } };
}

test("a volume without its image is an empty directory, and the path is told", () => {
  const pod = podWith([
    { name: "a", emptyDir: { medium: "Memory" } },
    { name: "b", image: {} },
  ]);
  expect(dropImageVolumes(pod)).toEqual(["spec.volumes[1].image"]);
  const volumes = [
    { name: "a", emptyDir: { medium: "Memory" } },
    { name: "b", emptyDir: {} },
  ];
  expect(pod["spec"]).toEqual({ volumes });
  expect(dropImageVolumes(pod)).toEqual([]);
});

test("what is no pod, and what is no list of volumes, is left alone", () => {
  const other = podWith([{ name: "b", image: {} }], "Thing");
  expect(dropImageVolumes(other)).toEqual([]);
  expect(other["spec"]).toEqual({ volumes: [{ name: "b", image: {} }] });
  expect(dropImageVolumes(podWith(["b"]))).toEqual([]);
  expect(dropImageVolumes({ apiVersion: "v1", kind: "Pod", metadata: { name: "p" } })).toEqual([]);
});
