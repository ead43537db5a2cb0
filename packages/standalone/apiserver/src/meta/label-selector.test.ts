// SPDX-License-Identifier: Apache-2.0
// Which labels does a selector match?
import { expect, test } from "vitest";
import { makeLabelMatcher, parseLabelSelector } from "./label-selector.ts";

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
  { selector: "app in (a,)", want: true },
  { selector: "empty in ()", want: true },
  { selector: " app = a , tier ", want: true },
  { selector: " \t", want: true },
  { selector: "size>7", want: false },
  { selector: "size<7", want: false },
  { selector: "size>0", want: true },
  { selector: "app>1", want: false },
  { selector: "app<1", want: false },
  { selector: "none>1", want: false },
  { selector: "toString", want: false },
  { selector: "app=a,tier=x", want: false },
])("$selector matches: $want", ({ selector, want }) => {
  expect(parseLabelSelector(selector)?.(labels) ?? true).toBe(want);
});

test.each(["a in (", "a b=c", "=a", "a,", "a in ()x", "a=b c", "-a=b", "a=b_", "(a)"])(
  "rejects %s",
  (selector) => {
    expect(() => parseLabelSelector(selector)).toThrow(/unable to parse requirement/);
  },
);

test.each([
  { selector: "a in b", why: "expected: '('" },
  { selector: "a in (b", why: "expected: ',' or ')'" },
  { selector: "a b", why: "expected: ','" },
  { selector: "a=b_", why: 'values: Invalid value: "b_": ' },
  { selector: "-a", why: 'key: Invalid value: "-a": ' },
  { selector: "a>b", why: `values[0]: Invalid value: "b": for 'Gt', 'Lt' operators` },
  { selector: "a<", why: `values[0]: Invalid value: "": for 'Gt', 'Lt' operators` },
])("rejects $selector with its cause: $why", ({ selector, why }) => {
  expect(() => parseLabelSelector(selector)).toThrow(
    expect.objectContaining({
      message: expect.stringContaining(`unable to parse requirement: ${why}`) as string,
    }),
  );
});

test.each([
  { name: "no requirement", selector: {}, want: true },
  { name: "equal", selector: { matchLabels: { app: "a" } }, want: true },
  {
    name: "in",
    selector: { matchExpressions: [{ key: "app", operator: "In", values: ["b"] }] },
    want: false,
  },
  { name: "two labels", selector: { matchLabels: { app: "a", tier: "b" } }, want: false },
  {
    name: "operator NotIn",
    selector: { matchExpressions: [{ key: "app", operator: "NotIn", values: ["a"] }] },
    want: false,
  },
  {
    name: "exists",
    selector: { matchExpressions: [{ key: "none", operator: "Exists" }] },
    want: false,
  },
  {
    name: "a label and an expression",
    selector: {
      matchLabels: { app: "a" },
      matchExpressions: [{ key: "tier", operator: "In", values: ["x"] }],
    },
    want: false,
  },
  {
    name: "operator DoesNotExist",
    selector: { matchExpressions: [{ key: "none", operator: "DoesNotExist" }] },
    want: true,
  },
])("a selector in an object: $name", ({ selector, want }) => {
  expect(makeLabelMatcher(selector)(labels)).toBe(want);
});
