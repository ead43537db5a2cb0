// SPDX-License-Identifier: Apache-2.0
// The own containerd: starts, dies, restarts, and leaves nothing. Needs root, containerd and runc.
import { isRunning } from "@patchbay/os";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startContainerdBench, type ContainerdBench } from "./bench.ts";

let bench: ContainerdBench;

beforeAll(async () => {
  bench = await startContainerdBench();
});
afterAll(async () => {
  await bench.close();
});

test("provides its CRI services", async () => {
  expect(await bench.ctr("plugins", "ls", "id==cri")).toMatch(/cri .* ok/);
});

test("restarts after a kill", async () => {
  const first = bench.process ?? { pid: 0, startTime: "" };
  await bench.end("SIGKILL");
  expect(await isRunning(first)).toBe(false);
  await bench.start();
  expect(await bench.ctr("containers", "ls", "--quiet")).toBe("");
});
