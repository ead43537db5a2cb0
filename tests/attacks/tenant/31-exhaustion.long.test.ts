// SPDX-License-Identifier: Apache-2.0
// A tenant's pod without limits that takes all processes and all memory.
import { execFileSync, spawnSync } from "node:child_process";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { TenantNode } from "../tenant-node.ts";

const PIDS_MAX = 1024;
let node: TenantNode;

beforeAll(async () => {
  node = await TenantNode.start();
});
afterAll(async () => {
  await node.close();
});

/** Processes in each control group of the node's containers. */
function counts(): readonly number[] {
  const below = `*${node.facts.cgroupParent}/*/*`;
  const argv = ["/sys/fs/cgroup", "-path", below, "-name", "pids.current"];
  const out = execFileSync("find", [...argv, "-exec", "cat", "{}", "+"], { encoding: "utf8" });
  return out.trim().split("\n").map(Number); // none: [0]
}

test("attack 31: limits a fork bomb to 1,024 processes", async () => {
  // Each process forks twice and waits: the bomb grows without burning processor time.
  const script = "f() { f & f & busybox sleep 600; }; f; busybox sleep 600";
  const pod = await node.run("bomb", { script });
  const most = await eventually(
    () => {
      const found = Math.max(...counts());
      return found >= PIDS_MAX - 8 ? found : undefined;
    },
    { withinMs: 45_000 },
  );
  expect(most).toBeLessThanOrEqual(PIDS_MAX);
  expect(spawnSync("true").status).toBe(0);
  await node.remove(pod);
  expect(counts().every((count) => count < 8)).toBe(true);
});

test("attack 32: kills a container without a memory limit at the default, 512 MiB", async () => {
  const pod = await node.run("hog", { script: "busybox tail /dev/zero" });
  expect(await node.ended(pod)).toMatchObject({ exitCode: 137, reason: "OOMKilled" });
  await node.remove(pod);
});

test("attack 32: counts files in memory volumes as the pod's memory", async () => {
  const volumes = [{ name: "v", emptyDir: { medium: "Memory", sizeLimit: "100Gi" } }];
  const script = "busybox dd if=/dev/zero of=/v/flood bs=1M count=700 && exit 7; exit 3";
  const pod = await node.run("files", { script, volumes });
  const { exitCode } = await node.ended(pod);
  expect([3, 137]).toContain(exitCode); // full, or ended
  await node.remove(pod);
});
