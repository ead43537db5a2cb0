// SPDX-License-Identifier: Apache-2.0
// Containers that run although CRI reports that they do not, as after a canceled start. Needs root, containerd, runc and CNI's plugins.
import { existsSync } from "node:fs";
import { containerConfigFor, removeAllSandboxes, sandboxConfigFor } from "@patchbay/cri/testing";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { startContainerdRuntime, type ContainerdRuntimeBench } from "./containerd-runtime.ts";

let bench: ContainerdRuntimeBench;
let box: string;
beforeAll(async () => {
  bench = await startContainerdRuntime();
});
beforeEach(async () => {
  box = await bench.runtime.runSandbox(sandboxConfigFor(bench, "pod"));
});
afterEach(() => removeAllSandboxes(bench.runtime));
afterAll(() => bench.close());

function create(attempt: number): Promise<string> {
  const config = containerConfigFor(bench, bench.runner, attempt);
  return bench.runtime.createContainer(box, config, sandboxConfigFor(bench, "pod"));
}

/** Returns the pids of the containers' tasks, by container. */
async function listTasks(): Promise<ReadonlyMap<string, number>> {
  const [, ...rows] = (await bench.containerd.ctr("tasks", "list")).trim().split("\n");
  return new Map(
    rows.map((row) => {
      const [id = "", pid] = row.split(/\s+/);
      return [id, Number(pid)];
    }),
  );
}

/** Starts the container's program by containerd's task service, of which CRI learns nothing. Returns its pid. */
async function startLost(id: string): Promise<number> {
  await bench.containerd.ctr("tasks", "start", "--detach", "--null-io", id);
  const pid = (await listTasks()).get(id) ?? 0;
  expect(existsSync(`/proc/${String(pid)}`)).toBe(true);
  return pid;
}

test("removing a sandbox ends containers that CRI reports as created or exited", async () => {
  const { runtime } = bench;
  const [created, exited] = [await create(0), await create(1)];
  await runtime.startContainer(exited);
  await runtime.stopContainer(exited, 0);
  const pids = [await startLost(created), await startLost(exited)];
  await runtime.stopSandbox(box);
  expect(await runtime.findContainer(created)).toMatchObject({ state: "CREATED" });
  expect(await runtime.findContainer(exited)).toMatchObject({ state: "EXITED" });
  expect(new Set((await listTasks()).values())).toEqual(new Set(pids));
  await runtime.removeSandbox(box);
  expect(await runtime.findSandbox(box)).toBeUndefined();
  expect(await runtime.listContainers()).toEqual([]);
  expect(await listTasks()).toEqual(new Map());
  expect(pids.map((pid) => existsSync(`/proc/${String(pid)}`))).toEqual([false, false]);
});

test("removing a container ends it, and no other of its sandbox", async () => {
  const { runtime } = bench;
  const [lost, other] = [await create(0), await create(1)];
  const pid = await startLost(lost);
  await runtime.startContainer(other);
  await runtime.removeContainer(lost);
  expect(await runtime.findContainer(lost)).toBeUndefined();
  expect(existsSync(`/proc/${String(pid)}`)).toBe(false);
  expect(await runtime.findContainer(other)).toMatchObject({ state: "RUNNING" });
  expect([...(await listTasks()).keys()].toSorted()).toEqual([box, other].toSorted());
});
