// SPDX-License-Identifier: Apache-2.0
// Warnings of definitions that ask for what this server does not do.
import { expect, test } from "vitest";
import type { Fields } from "../objects/json.ts";
import { objectOf } from "../testing/judge.ts";
import { definitionKind } from "./definition.ts";

const DEFINITION = definitionKind(() => []);
const schema = (openAPIV3Schema: unknown) => ({ schema: { openAPIV3Schema } });
const version = { name: "v1", served: true, storage: true, ...schema({ type: "object" }) };
const RULES = { "x-kubernetes-validations": [{ rule: "true" }] };
const ruleWarning = (index: number, fields: string) =>
  `spec.versions[${String(index)}].schema.openAPIV3Schema: this server does not evaluate x-kubernetes-validations (CEL); values are not checked by the rules of ${fields}`;
const many = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`p${String(index)}`, RULES]));

test.each<{ name: string; given: Fields; want: readonly string[] }>([
  { name: "no unsupported features", given: { versions: [version] }, want: [] },
  {
    name: "validation rules at the root of the second version",
    given: { versions: [version, schema({ ...RULES, type: "object" })] },
    want: [ruleWarning(1, ".")],
  },
  {
    name: "validation rules in nested schemas",
    given: {
      versions: [
        schema({
          properties: {
            a: { ...RULES, items: RULES, properties: { b: RULES } },
            c: { additionalProperties: RULES, "x-kubernetes-validations": [] },
          },
        }),
      ],
    },
    want: [ruleWarning(0, ".a, .a.b, .a[*], .c.*")],
  },
  {
    name: "five rules",
    given: { versions: [schema({ properties: many(5) })] },
    want: [ruleWarning(0, ".p0, .p1, .p2, .p3, .p4")],
  },
  {
    name: "seven rules",
    given: { versions: [schema({ properties: many(7) })] },
    want: [ruleWarning(0, ".p0, .p1, .p2, .p3, .p4 and 2 more")],
  },
  {
    name: "a conversion webhook for one version",
    given: { versions: [version], conversion: { strategy: "Webhook" } },
    want: [
      "spec.conversion: this server does not call conversion webhooks; with one version none is needed",
    ],
  },
  {
    name: "a conversion webhook for two versions, which is rejected",
    given: { versions: [version, version], conversion: { strategy: "Webhook" } },
    want: [],
  },
])("warns a client that writes $name", ({ given, want }) => {
  expect(DEFINITION.strategy.warnings?.(objectOf(DEFINITION, { spec: given }))).toEqual(want);
});
