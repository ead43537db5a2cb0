// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { withoutBookkeeping } from "./bookkeeping.ts";

const METADATA = { name: "a", namespace: "ns", uid: "u", resourceVersion: "3" };

function thing(more: object): { apiVersion: string; kind: string; metadata: typeof METADATA } {
  return { apiVersion: "v1", kind: "Thing", metadata: { ...METADATA, ...more } };
}

const APPLIED = { "kubectl.kubernetes.io/last-applied-configuration": "{}" };

test.each([
  { name: "field managers", given: { managedFields: [{ manager: "m" }] }, want: {} },
  { name: "what was applied", given: { annotations: APPLIED }, want: { annotations: {} } },
  {
    name: "no other annotation",
    given: { annotations: { ...APPLIED, a: "b" } },
    want: { annotations: { a: "b" } },
  },
  {
    name: "nothing else",
    given: { labels: { a: "b" }, finalizers: ["f"] },
    want: { labels: { a: "b" }, finalizers: ["f"] },
  },
])("is left out: $name", ({ given, want }) => {
  const whole = { ...thing(given), spec: { a: 1 } };
  expect(withoutBookkeeping(whole)).toEqual({ ...thing(want), spec: { a: 1 } });
});
