// SPDX-License-Identifier: Apache-2.0
// Which names are allowed?
import { expect, test } from "vitest";
import {
  dns1035Fault,
  labelFault,
  labelValueFault,
  pathSegmentFault,
  qualifiedNameFault,
  subdomainFault,
} from "./names.ts";

test.each([
  {
    check: subdomainFault,
    good: ["a", "a.b-c", "1.2", "a".repeat(253)],
    bad: ["", "A", "a..b", "-a", "a".repeat(254)],
  },
  { check: labelFault, good: ["a", "a-1", "a".repeat(63)], bad: ["a.b", "a_", "a".repeat(64)] },
  { check: dns1035Fault, good: ["a1", "a".repeat(63)], bad: ["1a", "a.", "a".repeat(64)] },
  {
    check: qualifiedNameFault,
    good: ["a", "A_b.c", "x.io/a", `x.io/${"a".repeat(63)}`],
    bad: ["", "a/", "/a", "a/b/c", "X.io/a", "a b", "a".repeat(64)],
  },
  {
    check: pathSegmentFault,
    good: ["a", "...", ".a", "A b"],
    bad: [".", "..", "a/b", "a%2"],
  },
  {
    check: labelValueFault,
    good: ["", "a", "A_b.c-1", "a".repeat(63)],
    bad: ["-a", "a b", "a".repeat(64)],
  },
])("$check.name", ({ check, good, bad }) => {
  expect(good.filter((name) => check(name) !== undefined)).toEqual([]);
  expect(bad.filter((name) => check(name) === undefined)).toEqual([]);
});
