// SPDX-License-Identifier: Apache-2.0
import type { Pod } from "@patchbay/api/kubernetes";
import { describe, expect, test } from "vitest";
import { aPod } from "../../testing/pods.ts";
import { aPodWith } from "../testing.ts";
import {
  DEFAULT_STORAGE_BYTES,
  computeHeadroomBytes,
  isWalkDue,
  selectVictim,
  printBytes,
  findLimitViolation,
  findStorageLimit,
  type PodUsage,
} from "./limits.ts";

const MI = 2 ** 20;
const GI = 2 ** 30;

function limited(...limits: readonly (string | undefined)[]): Pod {
  const containers = limits.map((limit, index) => ({
    name: `c${String(index)}`,
    image: "i",
    ...(limit === undefined ? {} : { resources: { limits: { "ephemeral-storage": limit } } }),
  }));
  const volumes = [
    { name: "small", emptyDir: { sizeLimit: "10Mi" } },
    { name: "free", emptyDir: {} },
    { name: "memory", emptyDir: { medium: "Memory", sizeLimit: "1Gi" } },
  ];
  return aPodWith(volumes, { containers });
}

function usage(volumes: Record<string, number>, containers: Record<string, number> = {}): PodUsage {
  return {
    volumes: new Map(Object.entries(volumes)),
    containers: new Map(Object.entries(containers)),
  };
}

describe("a pod's disk limit", () => {
  test.each([
    {
      name: "the default and its volumes' own",
      pod: limited(undefined),
      want: DEFAULT_STORAGE_BYTES + 10 * MI,
    },
    { name: "its containers' together", pod: limited("1Gi", "512Mi"), want: 1.5 * GI },
    { name: "the limit of the only limited container", pod: limited("1Gi", undefined), want: GI },
  ])("is $name", ({ pod, want }) => {
    expect(findStorageLimit(pod)).toBe(want);
  });
});

describe("a pod is evicted", () => {
  test.each([
    {
      name: "if a volume exceeds its size limit",
      pod: limited(undefined),
      used: usage({ small: 12.34 * MI }),
      want: 'Usage of EmptyDir volume "small" (12.3Mi) exceeds the limit "10Mi".',
    },
    {
      name: "if a container's logs and files exceed its limit",
      pod: limited("20Mi"),
      used: usage({}, { c0: 21 * MI }),
      want: 'Container c0 (21Mi) exceeded its local ephemeral storage limit "20Mi".',
    },
    {
      name: "if its total usage exceeds its limit",
      pod: limited(undefined),
      used: usage({ free: 2 * GI }, { c0: 200 * MI }),
      want: 'Pod ephemeral local storage usage (2.2Gi) exceeds its limit "2Gi"; most of it is in volume "free" (2Gi).',
    },
  ])("$name", ({ pod, used, want }) => {
    expect(findLimitViolation(pod, used)).toBe(want);
  });

  test("not at its limits, and not for files in memory", () => {
    expect(
      findLimitViolation(limited("1Gi"), usage({ small: 10 * MI, memory: 0 })),
    ).toBeUndefined();
    expect(
      findLimitViolation(limited(undefined), usage({ free: DEFAULT_STORAGE_BYTES })),
    ).toBeUndefined();
  });
});

describe("on a disk that is nearly full", () => {
  const usages = new Map([
    ["little", usage({ free: 65 * MI })],
    ["much", usage({ free: 100 * MI }, { c0: MI })],
  ]);

  test("evicts the pod with the highest usage, and reports the numbers", () => {
    expect(selectVictim(usages, { sizeBytes: 10 * GI, freeBytes: 0.4 * GI })).toEqual({
      uid: "much",
      message:
        'The node was low on resource: ephemeral-storage. 409.6Mi of 10Gi were left, and this pod used most (101Mi); most of it is in volume "free" (100Mi).',
    });
  });

  describe("data that outlives pods", () => {
    const growth = new Map([['new data of claim volume "pvc-1"', 200 * MI]]);
    const writer = { ...usage({}), growth };

    test("is charged to the pod that grows it, before a smaller pod", () => {
      const all = new Map([...usages, ["writer", writer]]);
      const victim = selectVictim(all, { sizeBytes: 10 * GI, freeBytes: 0 });
      expect(victim?.uid).toBe("writer");
      expect(victim?.message).toContain(
        'most of it is in new data of claim volume "pvc-1" (200Mi)',
      );
    });

    test("evicts no pod if the writers have ended and the others would not free enough", () => {
      expect(selectVictim(usages, { sizeBytes: 100 * GI, freeBytes: 0 })).toBeUndefined();
    });
  });

  test.each([
    {
      name: "the disk has enough free space",
      disk: { sizeBytes: 10 * GI, freeBytes: 0.5 * GI },
      of: usages,
    },
    { name: "a large disk has 1 GiB", disk: { sizeBytes: 1000 * GI, freeBytes: GI }, of: usages },
    {
      name: "no pod uses enough disk space to help",
      disk: { sizeBytes: 10 * GI, freeBytes: 0 },
      of: new Map([["little", usage({ free: 63 * MI })]]),
    },
  ])("evicts no pod where $name", ({ disk, of }) => {
    expect(selectVictim(of, disk)).toBeUndefined();
  });
});

describe("walks of the directory trees", () => {
  const last = { atMs: 100_000, freeBytes: 50 * GI, headroomBytes: 2 * GI };
  test.each([
    { name: "run at the start", last: undefined, afterMs: 0, writtenBytes: 0, want: true },
    {
      name: "do not run while nothing is written",
      last,
      afterMs: 59_999,
      writtenBytes: 0,
      want: false,
    },
    {
      name: "run after half of the smallest headroom was written",
      last,
      afterMs: 10_000,
      writtenBytes: GI,
      want: true,
    },
    {
      name: "do not run below half of the headroom",
      last,
      afterMs: 10_000,
      writtenBytes: GI - 1,
      want: false,
    },
    {
      name: "do not run for small writes even if a pod is at its limit",
      last: { ...last, headroomBytes: 0 },
      afterMs: 10_000,
      writtenBytes: MI - 1,
      want: false,
    },
    {
      name: "do not run again within ten seconds",
      last,
      afterMs: 9_999,
      writtenBytes: 40 * GI,
      want: false,
    },
    {
      name: "run if the disk is nearly full",
      last: { ...last, freeBytes: GI - 1 },
      afterMs: 10_000,
      writtenBytes: 0,
      want: true,
    },
    { name: "run at least once a minute", last, afterMs: 60_000, writtenBytes: -GI, want: true },
  ])("$name", ({ last: before, afterMs, writtenBytes, want }) => {
    const freeBytes = (before?.freeBytes ?? 50 * GI) - writtenBytes;
    expect(isWalkDue(before, { sizeBytes: 100 * GI, freeBytes, atMs: 100_000 + afterMs })).toBe(
      want,
    );
  });
});

test("a pod may write up to the nearest of its limits", () => {
  expect(computeHeadroomBytes(limited(undefined), usage({ small: 4 * MI }))).toBe(6 * MI);
  expect(computeHeadroomBytes(limited("1Gi"), usage({ free: GI - MI }))).toBe(MI);
  expect(computeHeadroomBytes(limited("1Gi"), usage({ free: 2 * GI }))).toBe(0);
});

test.each([
  [0, "0"],
  [1023, "1023"],
  [1536, "1.5Ki"],
  [12.34 * MI, "12.3Mi"],
  [3 * GI, "3Gi"],
])("prints %d bytes as %s", (bytes, want) => {
  expect(printBytes(bytes)).toBe(want);
});

describe("a pod without volumes", () => {
  const bare = aPod();
  test("has the default disk limit for its container's files", () => {
    expect(findStorageLimit(bare)).toBe(DEFAULT_STORAGE_BYTES);
    expect(computeHeadroomBytes(bare, usage({}, { compute: GI }))).toBe(GI);
    expect(findLimitViolation(bare, usage({}, { compute: GI }))).toBeUndefined();
    expect(findLimitViolation(bare, usage({}, { compute: 2 * GI + 1 }))).toContain(
      'most of it is in container "compute" (2Gi)',
    );
  });
});

test.each([
  { name: "exactly its limit", small: 10 * MI, want: undefined },
  { name: "a byte more", small: 10 * MI + 1, want: "small" },
])("the violation of a pod whose volume holds $name: $want", ({ small, want }) => {
  const violation = findLimitViolation(limited("1Gi"), usage({ small }));
  expect(/"(\w+)"/.exec(violation ?? "")?.[1]).toBe(want);
});

test.each([
  { name: "not a size", limit: "much" },
  { name: "zero", limit: "0" },
])("ignores a limit that is $name", ({ limit }) => {
  const pod = aPodWith([{ name: "small", emptyDir: { sizeLimit: limit } }]);
  expect(findLimitViolation(pod, usage({ small: GI }))).toBeUndefined();
  expect(computeHeadroomBytes(pod, usage({ small: GI }))).toBe(GI);
  expect(findLimitViolation(limited(limit), usage({}, { c0: GI }))).toBeUndefined();
});

test("applies a container's limit to that container, and rounds up to whole bytes", () => {
  const pod = limited("20Mi", "1Gi");
  expect(findLimitViolation(pod, usage({}, { c0: 20 * MI, c1: 500 * MI }))).toBeUndefined();
  expect(findLimitViolation(pod, usage({}, { c1: 1025 * MI }))).toContain("Container c1 (1Gi)");
  expect(findStorageLimit(limited("1500m"))).toBe(2);
  const small = aPodWith([{ name: "small", emptyDir: { sizeLimit: "1500m" } }]);
  expect(findStorageLimit(small)).toBe(DEFAULT_STORAGE_BYTES + 2);
});

test("growth counts like usage for evictions", () => {
  const disk = { sizeBytes: 10 * GI, freeBytes: 0 };
  const grown = { ...usage({}), growth: new Map([["new data", 64 * MI]]) };
  expect(selectVictim(new Map([["writer", grown]]), disk)?.uid).toBe("writer");
  const little = { ...usage({}), growth: new Map([["new data", 64 * MI - 1]]) };
  expect(selectVictim(new Map([["writer", little]]), disk)).toBeUndefined();
  expect(selectVictim(new Map(), disk)).toBeUndefined();
});

test("evicts a pod if evicting all pods frees just enough", () => {
  const usages = new Map([
    ["one", usage({ free: 64 * MI })],
    ["other", usage({ free: 36 * MI })],
  ]);
  const needed = 0.05 * 2000 * MI;
  const disk = { sizeBytes: 2000 * MI, freeBytes: 0 };
  expect(needed).toBe(100 * MI);
  expect(selectVictim(usages, disk)?.uid).toBe("one");
  const more = new Map([...usages, ["other", usage({ free: 36 * MI - 1 })]]);
  expect(selectVictim(more, disk)).toBeUndefined();
});
