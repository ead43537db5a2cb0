// SPDX-License-Identifier: Apache-2.0
// What do people see?
import { expect, test } from "vitest";
import { ageOf } from "./age.ts";
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
])("an age of %i seconds is shown as %s", (seconds, want) => {
  expect(ageOf("1970-01-01T00:00:00Z", seconds * 1000)).toBe(want);
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
