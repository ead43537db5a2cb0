// SPDX-License-Identifier: Apache-2.0
// In which order are versions offered?
import { expect, test } from "vitest";
import { compareVersions } from "./version-order.ts";

test("stable before beta before alpha, higher numbers first, others last", () => {
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
