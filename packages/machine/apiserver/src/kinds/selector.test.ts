// SPDX-License-Identifier: Apache-2.0
// How are selectors inside objects written as text?
import { expect, test } from "vitest";
import { selectorMatcher, selectorText } from "./selector.ts";

const EXPRESSIONS = [
  { key: "b", operator: "In", values: ["2", "1"] },
  { key: "c", operator: "NotIn", values: ["x"] },
  { key: "d", operator: "Exists" },
  { key: "e", operator: "DoesNotExist" },
];

test("selectors as text", () => {
  const selector = { matchLabels: { z: "1", a: "2" }, matchExpressions: EXPRESSIONS };
  expect(selectorText(selector)).toBe("a=2,b in (1,2),c notin (x),d,!e,z=1");
  expect(selectorText(undefined)).toBe("");
});

test("selectors match labels", () => {
  const matches = selectorMatcher({ matchExpressions: EXPRESSIONS });
  expect(matches({ b: "1", d: "" })).toBe(true);
  expect(matches({ b: "3", d: "" })).toBe(false);
});
