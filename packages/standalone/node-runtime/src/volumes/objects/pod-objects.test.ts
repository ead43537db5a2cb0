// SPDX-License-Identifier: Apache-2.0
import type { KubeObject } from "@patchbay/api/kubernetes";
import { createFakeCache } from "@patchbay/kube/testing";
import { createFakeClock, settle } from "@patchbay/os/testing";
import { createSilentLogger } from "@patchbay/telemetry";
import { describe, expect, test } from "vitest";
import { aConfigMap, createVolumeBench } from "../testing.ts";
import { createPodObjects } from "./pod-objects.ts";

const C = { kind: "configMap", name: "c" } as const;
const D = { kind: "secret", name: "c" } as const;

function openWatches(bench: ReturnType<typeof createVolumeBench>): readonly string[] {
  return [...bench.watches].filter(([, { isOpen }]) => isOpen).map(([key]) => key);
}

describe("an object of a pod", () => {
  test("has one watch of its namespace and kind while pods reference such objects", () => {
    const bench = createVolumeBench();
    const { objects } = bench.deps;
    objects.setReferences("1", "ns", [C, D]);
    objects.setReferences("2", "ns", [C]);
    objects.setReferences("2", "ns", [C]);
    const many = Array.from({ length: 200 }, (_none, index) => ({ ...C, name: String(index) }));
    objects.setReferences("1", "ns", [C, D, ...many]);
    expect(openWatches(bench)).toEqual(["ConfigMap ns", "Secret ns"]);
    expect(bench.watches.size).toBe(2);
    objects.setReferences("1", "ns", []);
    expect(openWatches(bench)).toEqual(["ConfigMap ns"]);
    objects.setReferences("2", "ns", []);
    expect(openWatches(bench)).toEqual([]);
  });

  test("reports its changes only to its own pods", async () => {
    const bench = createVolumeBench();
    const { objects } = bench.deps;
    bench.put(aConfigMap("c", { key: "1" }));
    objects.setReferences("1", "ns", [C]);
    objects.setReferences("2", "ns", [D]);
    const told: string[] = [];
    const stop = objects.onChange((uid) => told.push(uid));
    await objects.read("ns", C);
    told.length = 0;
    bench.put(aConfigMap("c", { key: "2" }));
    await settle();
    expect(told).toEqual(["1"]);
    const entries = await objects.read("ns", C);
    expect(Buffer.from(entries?.get("key") ?? []).toString()).toBe("2");
    expect(await objects.read("ns", D)).toBeUndefined();
    stop();
    bench.put(aConfigMap("c", { key: "3" }));
    await settle();
    expect(told).toEqual(["1"]);
  });

  test("throws after a timeout if the watch never syncs", async () => {
    const clock = createFakeClock();
    const silent = Object.assign(createFakeCache<KubeObject>(), {
      start: () => undefined,
      synced: () => new Promise<void>(() => undefined),
    });
    const objects = createPodObjects(
      {
        openCache: () => silent,
        readObject: () => Promise.resolve(undefined),
        clock,
        log: createSilentLogger(),
      },
      new AbortController().signal,
    );
    objects.setReferences("1", "ns", [C]);
    const reading = objects.read("ns", C);
    await settle();
    const timeout = clock.advance(10_000);
    await expect(reading).rejects.toMatchObject({
      code: "OS_TIMED_OUT",
      details: {
        program: expect.stringMatching(/^the watch of .*c/) as unknown,
        timeoutMs: 10_000,
      },
    });
    await timeout;
  });

  test("is not read if no pod references it", async () => {
    const bench = createVolumeBench();
    bench.put(aConfigMap("c", { key: "1" }));
    expect(await bench.deps.objects.read("ns", C)).toBeUndefined();
    expect(bench.watches.size).toBe(0);
  });

  test("of another namespace is a different object", async () => {
    const bench = createVolumeBench();
    const { objects } = bench.deps;
    bench.put(aConfigMap("c", { key: "1" }));
    objects.setReferences("1", "other", [C]);
    expect(await objects.read("ns", C)).toBeUndefined();
    objects.setReferences("1", "ns", [C]);
    expect(openWatches(bench)).toEqual(["ConfigMap ns"]);
    expect([...((await objects.read("ns", C))?.keys() ?? [])]).toEqual(["key"]);
  });

  test("leaves no timer after a read", async () => {
    const bench = createVolumeBench();
    bench.deps.objects.setReferences("1", "ns", [C]);
    await bench.deps.objects.read("ns", C);
    expect(bench.clock.dueMs).toEqual([]);
  });

  test("is not watched after the node stops", () => {
    const stop = new AbortController();
    const bench = createVolumeBench(stop.signal);
    bench.deps.objects.setReferences("1", "ns", [C]);
    stop.abort();
    expect(openWatches(bench)).toEqual([]);
  });
});
