// SPDX-License-Identifier: Apache-2.0
// Refusals of label selectors inside objects.
import { expect, test } from "vitest";
import { printCauses } from "../testing/judge.ts";
import { selectorCauses } from "./selector-causes.ts";

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

test("no selector is refused for nothing", () => {
  expect(selectorCauses(undefined, "s")).toEqual([]);
});
