// SPDX-License-Identifier: Apache-2.0
// In which order are versions offered?
import { expect, test } from "vitest";
import { compareVersions, groupsOf } from "./legacy.ts";

test("stable before beta before alpha, higher numbers first, others last", () => {
  const given = ["v1alpha1", "foo", "v2", "v1beta2", "v10", "v1", "v1beta10"];
  expect(given.sort(compareVersions)).toEqual([
    "v10",
    "v2",
    "v1",
    "v1beta10",
    "v1beta2",
    "v1alpha1",
    "foo",
  ]);
});

test("groups are sorted, and the core group is none", () => {
  const groups = groupsOf([
    ["b", "v1"],
    ["", "v1"],
    ["a", "v1"],
    ["b", "v2"],
    ["b", "v1"],
  ]);
  expect(groups).toEqual([
    { name: "a", versions: ["v1"] },
    { name: "b", versions: ["v2", "v1"] },
  ]);
});
