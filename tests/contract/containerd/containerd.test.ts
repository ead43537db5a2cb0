// SPDX-License-Identifier: Apache-2.0
// A containerd of one's own: starts, dies, goes on, and leaves nothing. Needs root, containerd and runc.
import { createFiles, isRunning } from "@patchbay/os";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startContainerdBench, type ContainerdBench } from "./bench.ts";

const files = createFiles();
let bench: ContainerdBench;

beforeAll(async () => {
  bench = await startContainerdBench();
});
afterAll(async () => {
  await bench.close();
});

test("a machine's own containerd would see nothing of it", async () => {
  expect(await bench.ctr("plugins", "ls", "id==cri")).toMatch(/cri .* ok/);
  expect(await files.exists("/run/containerd/containerd.sock")).toBe(false);
});

test("one that was killed starts again", async () => {
  const first = bench.process ?? { pid: 0, startTime: "" };
  await bench.end("SIGKILL");
  expect(await isRunning(first)).toBe(false);
  await bench.start();
  expect(await bench.ctr("containers", "ls", "--quiet")).toBe("");
});
