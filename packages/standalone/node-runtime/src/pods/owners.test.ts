// SPDX-License-Identifier: Apache-2.0
import { createFakeContainerRuntime } from "@patchbay/cri/testing";
import { beforeEach, expect, test } from "vitest";
import { createRuns, RUN_UID } from "../testing/runs.ts";
import { createPodUidIndex, type Owners } from "./owners.ts";

let runtime: ReturnType<typeof createFakeContainerRuntime>;
let owners: Owners;

beforeEach(() => {
  runtime = createFakeContainerRuntime();
  owners = createPodUidIndex(runtime);
});

test("finds the pod of a container or sandbox id in the runtime", async () => {
  const id = await createRuns(runtime, "/logs").run();
  const [sandbox] = await runtime.listSandboxes();
  expect(await owners.find(id)).toBe(RUN_UID);
  expect(await owners.find(sandbox?.id ?? "")).toBe(RUN_UID);
  expect(await owners.find("unknown")).toBeUndefined();
});

test("finds a stored id without the runtime, also after its removal there", async () => {
  owners.retain("pod-1", ["s1", "c1"]);
  runtime.stop();
  expect([await owners.find("s1"), await owners.find("c1")]).toEqual(["pod-1", "pod-1"]);
});

test("forgets the ids that a pod no longer has, but not those of other pods", async () => {
  owners.retain("pod-1", ["s1", "c1"]);
  owners.retain("pod-2", ["s2"]);
  owners.retain("pod-1", ["s1", "c2"]);
  expect(await Promise.all(["s1", "c1", "c2", "s2"].map((id) => owners.find(id)))).toEqual([
    "pod-1",
    undefined,
    "pod-1",
    "pod-2",
  ]);
  owners.retain("pod-1", []);
  owners.retain("pod-1", ["c3"]);
  expect(await Promise.all(["s1", "c2", "c3", "s2"].map((id) => owners.find(id)))).toEqual([
    undefined,
    undefined,
    "pod-1",
    "pod-2",
  ]);
});

test("does not reassign an id that another pod has now", async () => {
  owners.retain("pod-1", ["s1"]);
  owners.retain("pod-1", []);
  owners.retain("pod-2", ["s1"]);
  owners.retain("pod-1", []);
  expect(await owners.find("s1")).toBe("pod-2");
});
