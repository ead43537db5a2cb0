// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { selectsLabels, type LabelSelector } from "./affinity.ts";

const LABELS = { app: "web", generation: "7" };
const where = (key: string, operator: string, ...values: readonly string[]): LabelSelector => ({
  matchExpressions: [{ key, operator, values }],
});

test.each<{ name: string; given: LabelSelector | undefined; want: boolean }>([
  { name: "no selector", given: undefined, want: false },
  { name: "an empty selector", given: {}, want: true },
  { name: "a label that is equal", given: { matchLabels: { app: "web" } }, want: true },
  { name: "a label that is not", given: { matchLabels: { app: "db" } }, want: false },
  {
    name: "one met requirement of two",
    given: { matchLabels: { app: "web" }, ...where("x", "Exists") },
    want: false,
  },
  { name: "In", given: where("app", "In", "db", "web"), want: true },
  { name: "In, of no label", given: where("x", "In", "web"), want: false },
  { name: "NotIn", given: where("app", "NotIn", "web"), want: false },
  { name: "NotIn, of no label", given: where("x", "NotIn", "web"), want: true },
  { name: "Exists", given: where("app", "Exists"), want: true },
  {
    name: "Exists, for a JavaScript built-in name",
    given: where("toString", "Exists"),
    want: false,
  },
  { name: "DoesNotExist", given: where("app", "DoesNotExist"), want: false },
  { name: "Gt", given: where("generation", "Gt", "6"), want: true },
  { name: "Gt, for an equal value", given: where("generation", "Gt", "7"), want: false },
  { name: "Lt", given: where("generation", "Lt", "8"), want: true },
  { name: "Lt, for text", given: where("app", "Lt", "8"), want: false },
  { name: "an unknown operator", given: where("app", "Like", "web"), want: false },
])("$name: $want", ({ given, want }) => {
  expect(selectsLabels(given, LABELS)).toBe(want);
});
