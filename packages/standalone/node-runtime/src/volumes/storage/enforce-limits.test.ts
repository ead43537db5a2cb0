// SPDX-License-Identifier: Apache-2.0
import type { Pod } from "@patchbay/api/kubernetes";
import type { ContainerWrites } from "@patchbay/core/interfaces";
import { createFakeCache } from "@patchbay/kube/testing";
import { settle } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import { aPodWith, createVolumeBench, UID, type VolumeBench } from "../testing.ts";
import { enforceStorageLimits, checkStorage, type StorageDeps } from "./enforce-limits.ts";

const MI = 2 ** 20;
const VOLUME = `/pods/${UID}/volumes/kubernetes.io~empty-dir/v`;
const LOGS = `/logs/ns_a_${UID}/main`;

interface Bench extends VolumeBench {
  readonly storage: StorageDeps;
  readonly evicted: string[];
  readonly writes: ContainerWrites[];
}

function benchOf(pod: Pod, stop: AbortController): Bench {
  const bench = createVolumeBench();
  const pods = createFakeCache<Pod>();
  pods.put(pod);
  const evicted: string[] = [];
  const writes: ContainerWrites[] = [];
  const { disk, files, node, clock, log } = bench.deps;
  const evict = (uid: string, message: string): void => void evicted.push(`${uid}: ${message}`);
  const storage = { disk, files, node, clock, log, pods, evict };
  const runtime = { listWrites: () => Promise.resolve(writes) };
  void enforceStorageLimits({ ...storage, runtime }, stop.signal);
  return Object.assign(bench, { storage: { ...storage, runtime }, evicted, writes });
}

async function pass(bench: Bench, seconds: number): Promise<void> {
  for (let left = seconds; left > 0; left -= 2) await bench.clock.advance(2000);
  await settle();
}

const POD = aPodWith([{ name: "v", emptyDir: { sizeLimit: "10Mi" } }], {
  containers: [
    { name: "main", image: "i", resources: { limits: { "ephemeral-storage": "20Mi" } } },
  ],
});

test("measures volumes without a hard limit, logs and changed files, and reports both numbers", async () => {
  const stop = new AbortController();
  const bench = benchOf(POD, stop);
  bench.disk.setUsed(VOLUME, 10 * MI);
  await settle();
  expect(bench.evicted).toEqual([]);
  bench.disk.setUsed(LOGS, 5 * MI);
  const labels = { "io.kubernetes.pod.uid": UID };
  bench.writes.push(
    { id: "1", name: "main", labels, writtenBytes: 2 * MI },
    { id: "2", name: "main", labels, writtenBytes: 4 * MI },
    { id: "3", name: "main", labels: {}, writtenBytes: 2 ** 40 },
  );
  await pass(bench, 60);
  expect(bench.evicted).toEqual([
    `${UID}: Pod ephemeral local storage usage (21Mi) exceeds its limit "20Mi"; most of it is in container "main" (11Mi).`,
  ]);
  stop.abort();
});

test("walks directory trees once a minute while idle, and never without pods", async () => {
  const stop = new AbortController();
  const bench = benchOf(POD, stop);
  await pass(bench, 58);
  expect(bench.disk.walks).toBe(1);
  await pass(bench, 4);
  expect(bench.disk.walks).toBe(2);
  const finished: Pod = { ...POD, status: { phase: "Succeeded" } };
  const idleStop = new AbortController();
  const idle = benchOf(finished, idleStop);
  await pass(idle, 120);
  expect(idle.disk.walks).toBe(0);
  for (const one of [stop, idleStop]) one.abort();
});

test("reads the usage of a volume with a hard limit from its file system", async () => {
  const stop = new AbortController();
  const bench = benchOf(aPodWith([{ name: "v", emptyDir: {} }]), stop);
  await bench.disk.mountImage(VOLUME, {
    access: { uid: 0, gid: 0, mode: 0o777 },
    image: "/pods/image",
    sizeBytes: 2 ** 39,
  });
  bench.disk.setUsed(VOLUME, 0); // what a walk would say
  await pass(bench, 62); // the fake's file systems have 2^39 bytes in use
  expect(bench.evicted[0]).toContain('(512Gi) exceeds its limit "2Gi"');
  stop.abort();
});

test("logs a failed measurement and retries", async () => {
  const stop = new AbortController();
  const bench = benchOf(POD, stop);
  bench.disk.usedBytes = () => Promise.reject(new Error("du is gone"));
  await pass(bench, 62);
  expect(bench.log.lines.at(-1)).toMatchObject({
    message: "storage not measured",
    fields: { reason: "du is gone" },
  });
  stop.abort();
});

test("evicts a pod that grows a claim on a full disk, and resets the growth", async () => {
  const bench = createVolumeBench();
  const pods = createFakeCache<Pod>();
  pods.put(POD);
  const evicted: string[] = [];
  const forgiven: string[] = [];
  const words = 'new data of claim volume "pvc-1"';
  bench.files.readSpace = () => Promise.resolve({ sizeBytes: 1000 * MI, freeBytes: 0 });
  const deps: StorageDeps = {
    ...bench.deps,
    pods,
    runtime: { listWrites: () => Promise.resolve([]) },
    evict: (uid, message) => void evicted.push(`${uid} ${message}`),
    growths: {
      measure: () => Promise.resolve(new Map([[UID, new Map([[words, 64 * MI]])]])),
      resetGrowth: (uid) => void forgiven.push(uid),
    },
  };
  const walk = await checkStorage(deps, undefined);
  expect(evicted).toHaveLength(1);
  expect(evicted[0]).toContain(`${UID} The node was low on resource`);
  expect(evicted[0]).toContain(words);
  expect(forgiven).toEqual([UID]);
  expect(walk).toEqual({ atMs: 0, freeBytes: 0, headroomBytes: 10 * MI });
  expect(bench.log.lines).toMatchObject([{ level: "warn", fields: { uid: UID } }]);
});

test("evicts a pod over its own limit before the largest pod, and resets no growth", async () => {
  const bench = createVolumeBench();
  const pods = createFakeCache<Pod>();
  const greedy = aPodWith([], { containers: [{ name: "main", image: "i" }] });
  pods.put(POD);
  pods.put({ ...greedy, metadata: { ...greedy.metadata, name: "b", uid: "other" } });
  const evicted: string[] = [];
  bench.files.readSpace = () => Promise.resolve({ sizeBytes: 1000 * MI, freeBytes: 0 });
  bench.disk.setUsed(VOLUME, 11 * MI);
  bench.disk.setUsed("/logs/ns_b_other/main", 900 * MI);
  const deps: StorageDeps = {
    ...bench.deps,
    pods,
    runtime: { listWrites: () => Promise.resolve([]) },
    evict: (uid) => void evicted.push(uid),
  };
  await checkStorage(deps, undefined);
  expect(evicted).toEqual([UID]);
});
