// SPDX-License-Identifier: Apache-2.0
// What do people see?
import { expect, test } from "vitest";
import { printAge } from "./age.ts";
import { parsePath } from "./json-path.ts";

test.each([
  [0, "0s"],
  [119, "119s"],
  [120, "2m"],
  [125, "2m5s"],
  [700, "11m"],
  [4 * 3600 + 300, "4h5m"],
  [10 * 3600, "10h"],
  [3 * 86_400 + 3600, "3d1h"],
  [30 * 86_400, "30d"],
  [3 * 31_536_000, "3y"],
  [-1, "0s"],
  [599, "9m59s"],
  [600, "10m"],
  [10_799, "179m"],
  [10_800, "3h"],
  [28_799, "7h59m"],
  [28_800, "8h"],
  [172_799, "47h"],
  [172_800, "2d"],
  [691_199, "7d23h"],
  [691_200, "8d"],
  [63_071_999, "729d"],
  [63_072_000, "2y"],
  [252_287_999, "7y364d"],
  [252_288_000, "8y"],
  [400 * 31_536_000 + 86_400, "400y"],
])("an age of %i seconds is shown as %s", (seconds, want) => {
  expect(printAge("1970-01-01T00:00:00Z", seconds * 1000)).toBe(want);
});

const object = {
  spec: { a: "x", list: [{ n: 1 }, { n: 2 }] },
  metadata: { labels: { "a.b/c": "l" } },
  status: {
    conditions: [
      { type: "Ready", status: "True" },
      { type: "Other", status: "False" },
    ],
  },
};

test.each([
  { path: ".spec.a", want: ["x"] },
  { path: ".spec.none", want: [] },
  { path: ".spec.list[1].n", want: [2] },
  { path: ".spec.list[*].n", want: [1, 2] },
  { path: '.status.conditions[?(@.type=="Ready")].status', want: ["True"] },
  { path: ".status.conditions[?(@.type=='Other')].status", want: ["False"] },
  { path: ".metadata.labels['a.b/c']", want: ["l"] },
  { path: "not a path", want: [] },
])("$path finds $want", ({ path, want }) => {
  expect(parsePath(path)(object)).toEqual(want);
});
