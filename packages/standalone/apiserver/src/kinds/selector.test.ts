// SPDX-License-Identifier: Apache-2.0
// How are selectors inside objects written as text?
import { expect, test } from "vitest";
import { printCauses } from "../testing/judge.ts";
import { selectorCauses, selectorMatcher, printSelector } from "./selector.ts";

const EXPRESSIONS = [
  { key: "b", operator: "In", values: ["2", "1"] },
  { key: "c", operator: "NotIn", values: ["x"] },
  { key: "d", operator: "Exists" },
  { key: "e", operator: "DoesNotExist" },
];

test("prints selectors as text", () => {
  const selector = { matchLabels: { z: "1", a: "2" }, matchExpressions: EXPRESSIONS };
  expect(printSelector(selector)).toBe("a=2,b in (1,2),c notin (x),d,!e,z=1");
  expect(printSelector(undefined)).toBe("");
});

test("selectors match labels", () => {
  const matches = selectorMatcher({ matchExpressions: EXPRESSIONS });
  expect(matches({ b: "1", d: "" })).toBe(true);
  expect(matches({ b: "3", d: "" })).toBe(false);
});

const NEEDS = "must be specified when `operator` is 'In' or 'NotIn'";
const NO_VALUES = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";

test.each([
  { expression: { key: "a", operator: "In", values: ["b"] }, want: [] },
  { expression: { key: "a", operator: "NotIn", values: ["b"] }, want: [] },
  { expression: { key: "a", operator: "Exists" }, want: [] },
  { expression: { key: "a", operator: "DoesNotExist", values: [] }, want: [] },
  { expression: { key: "a", operator: "In" }, want: [`values: Required value: ${NEEDS}`] },
  { expression: { key: "a", operator: "NotIn" }, want: [`values: Required value: ${NEEDS}`] },
  {
    expression: { key: "a", operator: "Exists", values: ["b"] },
    want: [`values: Forbidden: ${NO_VALUES}`],
  },
  {
    expression: { key: "a", operator: "DoesNotExist", values: ["b"] },
    want: [`values: Forbidden: ${NO_VALUES}`],
  },
  {
    expression: { key: "a b", operator: "Like" },
    want: [
      expect.stringMatching(/^key: Invalid value: "a b": name part/),
      'operator: Invalid value: "Like": not a valid selector operator',
    ],
  },
])("the expression $expression", ({ expression, want }) => {
  const good = { key: "a", operator: "Exists" };
  const causes = printCauses(selectorCauses({ matchExpressions: [good, expression] }, "s"));
  expect(causes.map((cause) => cause.replace("s.matchExpressions[1].", ""))).toEqual(want);
});

test.each([
  { labels: { "x.io/a": "b", c: "" }, want: [] },
  {
    labels: { "a b": "c d" },
    want: [
      expect.stringMatching(/^s\.matchLabels: Invalid value: "a b": name part/),
      expect.stringMatching(/^s\.matchLabels: Invalid value: "c d": a valid label/),
    ],
  },
])("the labels $labels", ({ labels, want }) => {
  expect(printCauses(selectorCauses({ matchLabels: labels }, "s"))).toEqual(want);
});

test("accepts a missing selector", () => {
  expect(selectorCauses(undefined, "s")).toEqual([]);
});
