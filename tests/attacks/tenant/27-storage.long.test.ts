// SPDX-License-Identifier: Apache-2.0
// A tenant's pod that fills the node's disk.
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { VolumeDisk } from "@patchbay/core/interfaces";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { rotateLogs } from "../../../packages/standalone/node-runtime/src/log-rotation.ts";
import type { VolumeDeps } from "../../../packages/standalone/node-runtime/src/volumes/index.ts";
import { bytesOnDisk, TenantNode } from "../tenant-node.ts";

const MIB = 1024 * 1024;
let node: TenantNode;

beforeAll(async () => {
  node = await TenantNode.start();
});
afterAll(async () => {
  await node.close();
});

/** 30 chains of 1,000 directories, each moved to the end of the next one: no path is too long on the way. */
const DIG = `p=; for i in $(busybox seq 1000); do p=\${p}d/; done
  for i in $(busybox seq 30); do
    busybox mkdir -p $1/c$i/$p || exit 1
    [ $i = 1 ] || busybox mv $1/c$((i - 1)) $1/c$i/$p || exit 2
  done`;

/** A node without loop devices: volumes have no hard limit. */
function withoutWalls(): VolumeDeps {
  const { disk } = node.deps;
  const plain: VolumeDisk = {
    makeDirectory: (path, access) => disk.makeDirectory(path, access),
    mountMemory: (path, options) => disk.mountMemory(path, options),
    mountImage: () => Promise.reject(new Error("no loop devices")),
    mountDirectory: (path, source) => disk.mountDirectory(path, source),
    unmountAll: (path) => disk.unmountAll(path),
    listMounts: (path) => disk.listMounts(path),
    publish: (path, files) => disk.publish(path, files),
    usedBytes: (paths) => disk.usedBytes(paths),
    readKind: (path) => disk.readKind(path),
  };
  return { ...node.deps, disk: plain };
}

test("attack 27: deletes a tree of 30,000 directories with its pod", async () => {
  const volumes = [
    { name: "disk", emptyDir: {} },
    { name: "memory", emptyDir: { medium: "Memory" } },
  ];
  const script = `set -- /disk; ${DIG}; set -- /memory; ${DIG}`;
  const pod = await node.run("deep", { script, volumes });
  expect((await node.ended(pod, 120_000)).exitCode).toBe(0);
  expect(existsSync(join(pod.paths.get("disk") ?? "", "c30"))).toBe(true);
  await node.remove(pod);
  expect(existsSync(node.podDirectory(pod))).toBe(false);
});

test("attack 28: an emptyDir ends at its limit, counting deleted files that are still open", async () => {
  const volumes = [{ name: "v", emptyDir: { sizeLimit: "32Mi" } }];
  const script = `exec 3>/v/hidden; busybox rm /v/hidden
    busybox dd if=/dev/zero bs=1M count=500 >&3 && exit 7
    busybox dd if=/dev/zero of=/v/open bs=1M count=500 && exit 8; exit 0`;
  const pod = await node.run("full", { script, volumes });
  expect((await node.ended(pod)).exitCode).toBe(0);
  expect(bytesOnDisk(join(node.podDirectory(pod), "disks"))).toBeLessThan(40 * MIB);
  await node.remove(pod);
});

test("attack 28: evicts the pod and reports both numbers where volumes have no hard limit", async () => {
  const deps = withoutWalls();
  const volumes = [{ name: "v", emptyDir: { sizeLimit: "32Mi" } }];
  const script = "busybox dd if=/dev/zero of=/v/flood bs=1M count=40; busybox sleep 600";
  const pod = await node.run("measured", { script, volumes }, deps);
  const flood = join(pod.paths.get("v") ?? "", "flood");
  await eventually(() => bytesOnDisk(flood) > 33 * MIB, { withinMs: 20_000 });
  expect(await node.evicted(pod, deps)).toMatch(
    /^Usage of EmptyDir volume "v" \(\d+(\.\d)?Mi\) exceeds the limit "32Mi"\.$/,
  );
  await node.remove(pod);
});

test("attack 28: counts files in the container's root file system", async () => {
  const script = "busybox dd if=/dev/zero of=/tmp/flood bs=1M count=60; busybox sleep 600";
  const limits = { "ephemeral-storage": "48Mi" };
  const pod = await node.run("root", { script, limits });
  const isCounted = async (): Promise<boolean> =>
    (await node.bench.runtime.listWrites()).some(({ writtenBytes }) => writtenBytes > 49 * MIB);
  await eventually(isCounted, { withinMs: 40_000 }); // containerd measures every ten seconds
  expect(await node.evicted(pod)).toMatch(
    /^Container main \(\d+(\.\d)?Mi\) exceeded its local ephemeral storage limit "48Mi"\.$/,
  );
  await node.remove(pod);
});

test("attack 30: a flood of stdout is limited to five files", async () => {
  const { clock, files, log } = node.deps;
  const stop = new AbortController();
  rotateLogs({ runtime: node.bench.runtime, clock, files, log }, stop.signal);
  const pod = await node.run("loud", { script: "busybox yes flooooooooooooooooooooooooooooood" });
  const directory = node.logDirectory(pod);
  const seen = new Set<string>();
  await eventually(
    async () => {
      for (const name of await files.list(directory)) seen.add(name);
      expect(bytesOnDisk(directory)).toBeLessThan(300 * MIB); // 50, and the writes of half a second
      return seen.size > 8;
    },
    { withinMs: 50_000 },
  );
  expect((await files.list(directory)).length).toBeLessThanOrEqual(6);
  stop.abort();
  await node.remove(pod);
});
