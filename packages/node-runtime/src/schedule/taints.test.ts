// SPDX-License-Identifier: Apache-2.0
import type { Taint, Toleration } from "@patchbay/api";
import { describe, expect, test } from "vitest";
import { aPod } from "../testing/pods.ts";
import { toleratesCordon, untolerated } from "./taints.ts";

const TAINT: Taint = { key: "rack", value: "7", effect: "NoSchedule" };

describe("a pod is kept away", () => {
  test.each<{
    name: string;
    tolerations: readonly Toleration[];
    taint?: Partial<Taint>;
    want: boolean;
  }>([
    { name: "by a taint that it does not name", tolerations: [], want: true },
    { name: "not by a wish", tolerations: [], taint: { effect: "PreferNoSchedule" }, want: false },
    { name: "by another value", tolerations: [{ key: "rack", value: "8" }], want: true },
    { name: "not by its value", tolerations: [{ key: "rack", value: "7" }], want: false },
    {
      name: "by another key",
      tolerations: [{ key: "zone", operator: "Exists" }],
      want: true,
    },
    {
      name: "not by any value of its key",
      tolerations: [{ key: "rack", operator: "Exists" }],
      want: false,
    },
    { name: "not where it tolerates all", tolerations: [{ operator: "Exists" }], want: false },
    {
      name: "by another effect",
      tolerations: [{ key: "rack", operator: "Exists", effect: "NoSchedule" }],
      taint: { effect: "NoExecute" },
      want: true,
    },
  ])("$name", ({ tolerations, taint, want }) => {
    const found = untolerated(aPod({ tolerations }), [{ ...TAINT, ...taint }]);
    expect(found !== undefined).toBe(want);
  });

  test("by a cordon, unless it says otherwise", () => {
    const key = "node.kubernetes.io/unschedulable";
    expect(toleratesCordon(aPod())).toBe(false);
    expect(toleratesCordon(aPod({ tolerations: [{ key, operator: "Exists" }] }))).toBe(true);
  });
});
