// SPDX-License-Identifier: Apache-2.0
import type { Pod } from "@patchbay/api/kubernetes";
import { LoopWatch } from "@patchbay/kube";
import { createFakeCache } from "@patchbay/kube/testing";
import { settle } from "@patchbay/os/testing";
import { afterEach, describe, expect, test } from "vitest";
import { aPod } from "../testing/pods.ts";
import { refreshVolumes } from "./refresh.ts";
import { prepareVolumes, removeVolumes } from "./pod-volumes.ts";
import { aConfigMap, aPodWith, createVolumeBench, PODS_DIR, UID } from "./testing.ts";

const stop = { current: new AbortController() };
afterEach(() => {
  stop.current.abort();
  stop.current = new AbortController();
});

const SECOND = 1000;
const VOLUME = `${PODS_DIR}/${UID}/volumes/kubernetes.io~projected/v`;
const POD = aPodWith([
  {
    name: "v",
    projected: {
      sources: [
        { configMap: { name: "c" } },
        {
          downwardAPI: { items: [{ path: "labels", fieldRef: { fieldPath: "metadata.labels" } }] },
        },
        { serviceAccountToken: { path: "token", expirationSeconds: 1000 } },
      ],
    },
  },
]);

/** A pod whose volumes are made and kept current. */
async function running(pod = POD) {
  const bench = createVolumeBench(stop.current.signal);
  const pods = createFakeCache<Pod>({ uid: ({ metadata }) => [metadata.uid ?? ""] });
  bench.put(aConfigMap("c", { key: "1" }));
  bench.put(aConfigMap("other", { key: "1" }));
  pods.put(pod);
  await prepareVolumes(bench.deps, pod);
  await bench.files.ensureDirectory(VOLUME);
  void refreshVolumes(bench.deps, { pods, uidIndex: "uid" }, stop.current.signal);
  await wait();
  const later = async (ms = SECOND): Promise<void> => {
    await bench.clock.advance(ms);
    await wait();
  };
  await later();
  const text = (file: string): string | undefined => bench.disk.texts.get(`${VOLUME}/${file}`);
  return Object.assign(bench, { pods, text, later });
}

async function wait(): Promise<void> {
  for (let turn = 0; turn < 5; turn += 1) await settle();
}

describe("a volume of a running pod", () => {
  test("follows its ConfigMap, and stays unchanged after the ConfigMap's deletion", async () => {
    const bench = await running();
    bench.put(aConfigMap("c", { key: "2" }));
    await wait();
    expect(bench.text("key")).toBe("2");
    bench.take("ConfigMap", "c");
    await bench.later();
    expect(bench.text("key")).toBe("2");
    expect(bench.log.lines.at(-1)).toMatchObject({ message: "volume not updated" });
  });

  test("follows the pod's labels", async () => {
    const bench = await running();
    expect(bench.text("labels")).toBe('app="x"');
    bench.pods.put({ ...POD, metadata: { ...POD.metadata, labels: { app: "y" } } });
    await wait();
    expect(bench.text("labels")).toBe('app="y"');
  });

  test("gets a new token after four fifths of its lifetime, and retains the old token on failure", async () => {
    const bench = await running();
    expect(bench.requests).toEqual([" 1000"]);
    await bench.later(799_999 - SECOND);
    expect(bench.text("token")).toBe("token 1");
    await bench.later(1);
    expect(bench.text("token")).toBe("token 2");
    bench.refuseTokens();
    await bench.later(800_000);
    expect(bench.text("token")).toBe("token 2");
    expect(bench.log.lines.at(-1)).toMatchObject({ message: "token not replaced" });
  });

  test("is updated although the ConfigMap of an earlier volume was deleted", async () => {
    const [token] = POD.spec.volumes ?? [];
    if (token === undefined) throw new Error("no volume");
    const pod = aPodWith([{ name: "first", configMap: { name: "other" } }, token]);
    const bench = await running(pod);
    await bench.files.ensureDirectory(VOLUME.replace(/projected\/v$/, "configmap/first"));
    bench.take("ConfigMap", "other");
    bench.put(aConfigMap("c", { key: "2" }));
    await wait();
    expect(bench.text("key")).toBe("2");
  });

  test("is updated once per second while its ConfigMap changes in a loop", async () => {
    const bench = await running();
    const publish = bench.disk.publish.bind(bench.disk);
    let publishCount = 0;
    bench.disk.publish = (path, files) => {
      publishCount += 1;
      return publish(path, files);
    };
    for (let change = 0; change < 100; change += 1) {
      bench.put(aConfigMap("c", { key: String(change) }));
      await bench.later(50);
    }
    expect(publishCount).toBeLessThanOrEqual(6);
    await bench.later();
    expect(bench.text("key")).toBe("99");
  });

  test("waits for four times the duration of a refresh of another pod of its namespace", async () => {
    const bench = await running();
    const other = { ...POD, metadata: { ...POD.metadata, name: "b", uid: "other" } };
    const volume = VOLUME.replace(UID, "other");
    await prepareVolumes(bench.deps, other);
    await bench.files.ensureDirectory(volume);
    bench.pods.put(other);
    await bench.later();
    const publish = bench.disk.publish.bind(bench.disk);
    bench.disk.publish = async (path, files) => {
      await bench.clock.sleep(400, new AbortController().signal);
      return publish(path, files);
    };
    const relabel = (pod: Pod): Pod => ({
      ...pod,
      metadata: { ...pod.metadata, labels: { app: "y" } },
    });
    bench.pods.put(relabel(POD));
    await bench.later(400);
    bench.pods.put(relabel(other));
    await bench.later(1599);
    expect(bench.disk.texts.get(`${volume}/labels`)).toBe('app="x"');
    await bench.later(1);
    await bench.later(400);
    expect(bench.disk.texts.get(`${volume}/labels`)).toBe('app="y"');
  });

  test("is not updated after the pod has ended", async () => {
    const bench = await running();
    bench.pods.put({ ...POD, status: { phase: "Succeeded" } });
    await wait();
    expect([...bench.watches.values()].map(({ isOpen }) => isOpen)).toEqual([false]);
    expect(bench.deps.tokens.dueMs(UID)).toBeUndefined();
  });
});

test("removes the volumes of an evicted pod at once, but not those of other failed pods", async () => {
  const bench = await running();
  bench.pods.put({ ...POD, status: { phase: "Failed", reason: "Error" } });
  await wait();
  expect(bench.disk.mounts.has(VOLUME)).toBe(true);
  bench.pods.put({ ...POD, status: { phase: "Failed", reason: "Evicted" } });
  await wait();
  expect(bench.disk.mounts.size).toBe(0);
  expect(await bench.files.exists(`${PODS_DIR}/${UID}`)).toBe(false);
});

test("volumes that are removed during a refresh do not reappear", async () => {
  const bench = await running();
  const disk = Promise.withResolvers<undefined>();
  const mountMemory = bench.disk.mountMemory.bind(bench.disk);
  bench.disk.mountMemory = async (...args) => {
    await disk.promise;
    return mountMemory(...args);
  };
  bench.pods.put({ ...POD, metadata: { ...POD.metadata, labels: { app: "y" } } });
  await wait();
  const removed = removeVolumes(bench.deps, UID);
  await wait();
  disk.resolve(undefined);
  await removed;
  await wait();
  expect([...bench.disk.mounts.keys()]).toEqual([]);
  expect(await bench.files.exists(`${PODS_DIR}/${UID}`)).toBe(false);
});

test("skips a pod whose volumes are not prepared yet", async () => {
  const bench = createVolumeBench(stop.current.signal);
  const pods = createFakeCache<Pod>({ uid: ({ metadata }) => [metadata.uid ?? ""] });
  pods.put(POD);
  void refreshVolumes(bench.deps, { pods, uidIndex: "uid" }, stop.current.signal);
  await wait();
  expect(bench.watches.size).toBe(0);
  expect(bench.requests).toEqual([]);
});

test("skips a pod without volumes, although its directory exists", async () => {
  const bench = createVolumeBench(stop.current.signal);
  const pods = createFakeCache<Pod>({ uid: ({ metadata }) => [metadata.uid ?? ""] });
  pods.put(aPod({}, { uid: UID }));
  await bench.files.ensureDirectory(`${PODS_DIR}/${UID}`);
  void refreshVolumes(bench.deps, { pods, uidIndex: "uid" }, stop.current.signal);
  await wait();
  expect([bench.watches.size, bench.requests, bench.log.lines]).toEqual([0, [], []]);
});

test("logs changed volumes, not unchanged ones", async () => {
  const bench = await running();
  const before = bench.log.lines.length;
  bench.pods.put({ ...POD, metadata: { ...POD.metadata, annotations: { x: "y" } } });
  await wait();
  await bench.later();
  expect(bench.log.lines.slice(before)).toEqual([]);
  bench.put(aConfigMap("c", { key: "2" }));
  await wait();
  expect(bench.log.lines.slice(before)).toEqual([
    { level: "info", message: "volume updated", fields: { uid: UID, volume: "v" } },
  ]);
});

test("retries after an unexpected error", async () => {
  const bench = await running();
  bench.disk.publish = () => Promise.reject(new Error("disk is gone"));
  const before = bench.log.lines.length;
  bench.put(aConfigMap("c", { key: "2" }));
  await wait();
  expect(bench.log.lines.slice(before).map(({ message }) => message)).not.toContain(
    "volume not updated",
  );
  expect(bench.clock.dueMs.length).toBeGreaterThan(0);
});

test("does nothing after its end", async () => {
  const bench = await running();
  stop.current.abort();
  await wait();
  const before = bench.requests.length;
  bench.pods.put({ ...POD, metadata: { ...POD.metadata, labels: { app: "y" } } });
  await wait();
  expect([bench.text("labels"), bench.requests.length]).toEqual(['app="x"', before]);
});

test("a watched loop counts as started after its first pass", async () => {
  const bench = createVolumeBench(stop.current.signal);
  const pods = createFakeCache<Pod>({ uid: ({ metadata }) => [metadata.uid ?? ""] });
  const watch = new LoopWatch("volumes", bench.clock);
  expect(watch.isStarted()).toBe(false);
  pods.put(POD);
  void refreshVolumes(bench.deps, { pods, uidIndex: "uid", watch }, stop.current.signal);
  await wait();
  expect(watch.isStarted()).toBe(true);
});
