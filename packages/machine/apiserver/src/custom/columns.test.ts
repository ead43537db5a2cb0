// SPDX-License-Identifier: Apache-2.0
// What do printer columns of custom resources show?
import { expect, test } from "vitest";
import { columnsOf } from "./columns.ts";

const OBJECT = {
  apiVersion: "x.io/v1",
  kind: "X",
  metadata: { name: "x", creationTimestamp: "2024-01-01T00:00:00Z" },
  spec: { n: 1.5, t: "a", b: true, l: ["a", "b"], o: { k: 1 }, big: 2n ** 60n },
};
const NOW_MS = 1_704_067_260_000;

test.each([
  ["string", ".spec.t", "a"],
  ["string", ".spec.n", "1.5"],
  ["string", ".spec.o", '{"k":1}'],
  ["string", ".spec.none", null],
  ["integer", ".spec.n", 1],
  ["integer", ".spec.big", 2n ** 60n],
  ["integer", ".spec.t", null],
  ["number", ".spec.n", 1.5],
  ["number", ".spec.b", null],
  ["boolean", ".spec.b", true],
  ["boolean", ".spec.t", null],
  ["date", ".metadata.creationTimestamp", "60s"],
  ["date", ".spec.n", null],
  ["date", ".spec.t", "<invalid>"],
])("a column of type %s at %s shows %s", (type, jsonPath, want) => {
  const [column] = columnsOf([{ name: "C", type, jsonPath }]);
  expect(column?.cell(OBJECT, NOW_MS)).toBe(want);
});

test("without columns there is the age", () => {
  expect(columnsOf(undefined).map(({ name }) => name)).toEqual(["Age"]);
});
