// SPDX-License-Identifier: Apache-2.0
// Which labels does a selector match?
import { expect, test } from "vitest";
import { matcherOf, parseLabelSelector } from "./label-selector.ts";

const labels = { app: "a", tier: "web", size: "7", empty: "" };

test.each([
  { selector: "", want: true },
  { selector: "app=a", want: true },
  { selector: "app==b", want: false },
  { selector: "app!=b", want: true },
  { selector: "none!=b", want: true },
  { selector: "app in (a, b)", want: true },
  { selector: "app notin (a,b)", want: false },
  { selector: "none notin (a)", want: true },
  { selector: "tier", want: true },
  { selector: "!tier", want: false },
  { selector: "!none,tier = web", want: true },
  { selector: "size>6,size<8", want: true },
  { selector: "empty=", want: true },
  { selector: "in in (a)", want: false },
])("$selector matches: $want", ({ selector, want }) => {
  expect(parseLabelSelector(selector)?.(labels) ?? true).toBe(want);
});

test.each(["a in (", "a b=c", "=a", "a,", "a in ()x", "a=b c", "-a=b", "a=b_", "(a)"])(
  "%s is refused",
  (selector) => {
    expect(() => parseLabelSelector(selector)).toThrow(/unable to parse requirement/);
  },
);

test.each([
  { name: "no requirement", selector: {}, want: true },
  { name: "equal", selector: { matchLabels: { app: "a" } }, want: true },
  {
    name: "in",
    selector: { matchExpressions: [{ key: "app", operator: "In", values: ["b"] }] },
    want: false,
  },
  {
    name: "does not exist",
    selector: { matchExpressions: [{ key: "none", operator: "DoesNotExist" }] },
    want: true,
  },
])("a selector in an object: $name", ({ selector, want }) => {
  expect(matcherOf(selector)(labels)).toBe(want);
});
