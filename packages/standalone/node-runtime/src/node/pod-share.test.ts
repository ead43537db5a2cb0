// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { computePodQuota } from "./status.ts";

const GI = 2 ** 20;

test.each([
  { name: "a large machine reserves 1 GiB", memoryKiB: 64 * GI, want: 63 * GI },
  { name: "a small machine reserves a quarter of its memory", memoryKiB: 2 * GI, want: 1.5 * GI },
  {
    name: "a machine of 4 GiB reserves 1 GiB, which is also a quarter",
    memoryKiB: 4 * GI,
    want: 3 * GI,
  },
])("$name", ({ memoryKiB, want }) => {
  expect(computePodQuota({ memoryKiB, threadsMax: 32_768 })).toEqual({
    memoryKiB: want,
    processes: 26_214,
  });
});
