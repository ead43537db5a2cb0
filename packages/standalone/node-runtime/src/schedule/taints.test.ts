// SPDX-License-Identifier: Apache-2.0
import type { Taint, Toleration } from "@patchbay/api/kubernetes";
import { describe, expect, test } from "vitest";
import { aPod } from "../testing/pods.ts";
import {
  findTaintEviction,
  toleratesCordon,
  findUntoleratedTaint,
  listUntoleratedSoftTaints,
} from "./taints.ts";

const TAINT: Taint = { key: "rack", value: "7", effect: "NoSchedule" };

describe("a pod is repelled", () => {
  test.each<{
    name: string;
    tolerations: readonly Toleration[];
    taint?: Partial<Taint>;
    want: boolean;
  }>([
    { name: "by a taint that it does not name", tolerations: [], want: true },
    {
      name: "not by a preference",
      tolerations: [],
      taint: { effect: "PreferNoSchedule" },
      want: false,
    },
    {
      name: "if it tolerates only another value",
      tolerations: [{ key: "rack", value: "8" }],
      want: true,
    },
    {
      name: "not if it tolerates the value",
      tolerations: [{ key: "rack", value: "7" }],
      want: false,
    },
    {
      name: "if it tolerates only another key",
      tolerations: [{ key: "zone", operator: "Exists" }],
      want: true,
    },
    {
      name: "not by any value of its key",
      tolerations: [{ key: "rack", operator: "Exists" }],
      want: false,
    },
    { name: "not if it tolerates all taints", tolerations: [{ operator: "Exists" }], want: false },
    {
      name: "if it tolerates only another effect",
      tolerations: [{ key: "rack", operator: "Exists", effect: "NoSchedule" }],
      taint: { effect: "NoExecute" },
      want: true,
    },
  ])("$name", ({ tolerations, taint, want }) => {
    const found = findUntoleratedTaint(aPod({ tolerations }), [{ ...TAINT, ...taint }]);
    expect(found !== undefined).toBe(want);
  });

  test("by a cordon unless it tolerates the cordon", () => {
    const key = "node.kubernetes.io/unschedulable";
    expect(toleratesCordon(aPod())).toBe(false);
    expect(toleratesCordon(aPod({ tolerations: [{ key, operator: "Exists" }] }))).toBe(true);
  });
});

describe("a pod on the node is evicted", () => {
  const key = "maintenance";
  const taints: readonly Taint[] = [{ key, effect: "NoExecute" }];
  test.each<{ name: string; tolerations: readonly Toleration[]; want: number | undefined }>([
    { name: "at once", tolerations: [], want: 0 },
    { name: "never", tolerations: [{ key, operator: "Exists" }], want: undefined },
    {
      name: "after its time",
      tolerations: [{ key, operator: "Exists", tolerationSeconds: 60 }],
      want: 60,
    },
    {
      name: "at once if its toleration time is negative",
      tolerations: [{ key, operator: "Exists", tolerationSeconds: -1 }],
      want: 0,
    },
    {
      name: "after the shortest of its times",
      tolerations: [{ operator: "Exists" }, { key, operator: "Exists", tolerationSeconds: 5 }],
      want: 5,
    },
  ])("$name", ({ tolerations, want }) => {
    expect(findTaintEviction(aPod({ tolerations }), taints)?.afterSeconds).toBe(want);
  });

  test("never by a NoSchedule taint", () => {
    expect(findTaintEviction(aPod(), [TAINT])).toBeUndefined();
  });
});

test.each([
  { name: "first", keys: ["soon", "late"] },
  { name: "last", keys: ["late", "soon"] },
])("the taint with the earliest eviction applies, also if it is $name", ({ keys }) => {
  const tolerations = [
    { key: "soon", operator: "Exists", tolerationSeconds: 5 },
    { key: "late", operator: "Exists", tolerationSeconds: 60 },
  ] as const;
  const taints = keys.map((key) => ({ key, effect: "NoExecute" as const }));
  const eviction = findTaintEviction(aPod({ tolerations }), taints);
  expect([eviction?.taint.key, eviction?.afterSeconds]).toEqual(["soon", 5]);
});

test("lists PreferNoSchedule taints that a pod does not tolerate", () => {
  const preferred: Taint = { ...TAINT, effect: "PreferNoSchedule" };
  const other: Taint = { key: "zone", effect: "PreferNoSchedule" };
  const tolerant = aPod({ tolerations: [{ key: "rack", operator: "Exists" }] });
  expect(listUntoleratedSoftTaints(aPod(), [TAINT, preferred, other])).toEqual([preferred, other]);
  expect(listUntoleratedSoftTaints(tolerant, [TAINT, preferred, other])).toEqual([other]);
});
