// SPDX-License-Identifier: Apache-2.0
// In which order are groups offered?
import { expect, test } from "vitest";
import { compareVersions, toServedGroups } from "./served-groups.ts";

test("sorts stable before beta before alpha, higher numbers first, other versions last", () => {
  const given = ["v1alpha1", "foo", "v2", "v1beta2", "bar", "v10", "v1", "v1alpha2", "v1beta10"];
  expect(given.sort(compareVersions)).toEqual([
    "v10",
    "v2",
    "v1",
    "v1beta10",
    "v1beta2",
    "v1alpha2",
    "v1alpha1",
    "bar",
    "foo",
  ]);
});

test("sorts groups and versions by priority, then by name, without the core group", () => {
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
  const groups = toServedGroups(groupVersions, (group, version) =>
    group === "c" && version === "v1" ? { group: 2000, version: 200 } : { group: 1, version: 1 },
  );
  expect(groups).toEqual([
    { name: "apiregistration.k8s.io", versions: ["v1"] },
    { name: "c", versions: ["v1", "v2"] },
    { name: "a", versions: ["v1"] },
    { name: "b", versions: ["v2", "v1"] },
  ]);
});
