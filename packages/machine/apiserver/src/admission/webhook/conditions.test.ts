// SPDX-License-Identifier: Apache-2.0
// Which writes is a webhook asked about, by its match conditions?
import { expect, test } from "vitest";
import { compileCondition } from "../../expressions/condition.ts";
import { defineKind } from "../../kinds/kind.ts";
import type { AdmissionQuestion } from "../admission.ts";
import { meetsConditions } from "./conditions.ts";

const PODS = defineKind({ group: "", version: "v1", resource: "pods", kind: "Pod" });

const QUESTION: AdmissionQuestion = {
  kind: PODS,
  subresource: "status",
  operation: "UPDATE",
  namespace: "ns",
  name: "one",
  object: { apiVersion: "v1", kind: "Pod", metadata: { name: "one" }, spec: { a: 1 } },
  oldObject: { apiVersion: "v1", kind: "Pod", metadata: { name: "one" }, spec: { a: 2 } },
  options: {},
  user: { name: "alice", groups: ["people"] },
  dryRun: false,
  warnings: [],
};

function ask(...expressions: readonly string[]): boolean | Error {
  const conditions = expressions.map((expression, index) => ({
    name: `c${String(index)}`,
    holds: compileCondition(expression),
  }));
  return meetsConditions({ conditions }, QUESTION, PODS);
}

test.each([
  { name: "no condition", expressions: [], want: true },
  { name: "one that holds", expressions: ["object.spec.a < oldObject.spec.a"], want: true },
  { name: "one of two that does not", expressions: ["true", "object.spec.a == 2"], want: false },
  {
    name: "who asks for what",
    expressions: [
      "request.userInfo.username == 'alice' && 'people' in request.userInfo.groups",
      "request.operation == 'UPDATE' && request.subResource == 'status' && !request.dryRun",
      "request.resource.resource == 'pods' && request.name == 'one' && request.namespace == 'ns'",
      "!has(request.object)",
    ],
    want: true,
  },
  {
    name: "one that cannot be told beside one that does not hold",
    expressions: ["object.none", "false"],
    want: false,
  },
])("$name: $want", ({ expressions, want }) => {
  expect(ask(...expressions)).toBe(want);
});

test("one that cannot be told decides where the others hold", () => {
  const met = ask("true", "object.none == 1");
  expect(met).toBeInstanceOf(Error);
  expect(String(met)).toContain("matchConditions[c1]");
});
