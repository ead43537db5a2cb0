// SPDX-License-Identifier: Apache-2.0
// In which order are groups offered?
import { expect, test } from "vitest";
import { groupsOf } from "./served-groups.ts";

test("groups and versions are sorted by priority, then by name, and the core group is none", () => {
  const groupVersions = [
    ["b", "v1"],
    ["", "v1"],
    ["a", "v1"],
    ["apiregistration.k8s.io", "v1"],
    ["b", "v2"],
    ["c", "v2"],
    ["c", "v1"],
    ["b", "v1"],
  ] as const;
  const groups = groupsOf(groupVersions, (group, version) =>
    group === "c" && version === "v1" ? { group: 2000, version: 200 } : { group: 1, version: 1 },
  );
  expect(groups).toEqual([
    { name: "apiregistration.k8s.io", versions: ["v1"] },
    { name: "c", versions: ["v1", "v2"] },
    { name: "a", versions: ["v1"] },
    { name: "b", versions: ["v2", "v1"] },
  ]);
});
