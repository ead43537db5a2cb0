// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { compileCondition, conditionFault } from "./condition.ts";

const VARIABLES = {
  object: { spec: { count: 2, ratio: 0.5, list: [{ a: 1 }], big: 9_007_199_254_740_993n } },
  oldObject: { spec: { list: [{ a: 1 }], ratio: 0.5, count: 2, big: 9_007_199_254_740_993n } },
  request: { operation: "UPDATE", userInfo: { username: "alice", groups: ["a", "b"] } },
};

test.each([
  { expression: "true", want: true },
  { expression: "oldObject == null || object.spec != oldObject.spec", want: false },
  { expression: "request.userInfo.username in ['alice', 'bob']", want: true },
  { expression: "'c' in request.userInfo.groups", want: false },
  { expression: "request.operation == 'CREATE'", want: false },
  { expression: "object.spec.count + 1 == 3 && object.spec.ratio < 1.0", want: true },
  { expression: "object.spec.list.exists(each, each.a == 1)", want: true },
  { expression: "has(object.spec.none) || has(object.spec.constructor)", want: false },
])("$expression is $want", ({ expression, want }) => {
  expect(compileCondition(expression)(VARIABLES)).toBe(want);
});

test("a missing oldObject is null", () => {
  const isNew = compileCondition("oldObject == null || object.spec != oldObject.spec");
  expect(isNew({ ...VARIABLES, oldObject: null })).toBe(true);
});

test.each([
  { expression: "object.spec.none == 1", want: /none/ },
  { expression: "object.spec", want: /must evaluate to bool/ },
])("$expression fails to evaluate", ({ expression, want }) => {
  expect(() => compileCondition(expression)(VARIABLES)).toThrow(want);
});

test.each([
  { expression: "1 +", want: /EOF/ },
  { expression: "authorizer.group('') == 1", want: /authorizer/ },
  { expression: "'text'", want: /must evaluate to bool/ },
])("rejects $expression with $want", ({ expression, want }) => {
  expect(conditionFault(expression)).toMatch(want);
});

test("a valid expression has no fault", () => {
  expect(conditionFault("object.spec.count == 2")).toBeUndefined();
});
