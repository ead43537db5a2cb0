// SPDX-License-Identifier: Apache-2.0
// Refusals of CustomResourceDefinitions.
import { expect, test } from "vitest";
import type { Fields } from "../objects/json.ts";
import { changeRefusals, refusals } from "../testing/judge.ts";
import { definitionKind } from "./definition.ts";

const DEFINITION = definitionKind(() => []);
const PROTECTED = "metadata.annotations[api-approved.kubernetes.io]";
const names = { plural: "widgets", kind: "Widget" };
const schema = (openAPIV3Schema: unknown) => ({ schema: { openAPIV3Schema } });
const OBJECT = schema({ type: "object" });
const version = { name: "v1", served: true, storage: true, ...OBJECT };
const spec = { group: "test.io", scope: "Namespaced", names, versions: [version] };
const metadata = { name: "widgets.test.io" };
const AT = "spec.versions[0]";
const SCHEMA_AT = `${AT}.schema.openAPIV3Schema`;

interface Row {
  readonly name: string;
  readonly given: Fields;
  readonly want: readonly string[];
}

const SPECIFICATIONS: readonly Row[] = [
  { name: "all", given: {}, want: [] },
  { name: "cluster scope", given: { scope: "Cluster" }, want: [] },
  {
    name: "inconsistent names",
    given: { names: { plural: "gadgets" }, scope: "Galaxy" },
    want: [
      'metadata.name: Invalid value: "widgets.test.io": must be spec.names.plural+"."+spec.group',
      "spec.names.kind: Required value",
      'spec.scope: Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced"',
    ],
  },
  {
    name: "no version",
    given: { versions: [] },
    want: [
      "spec.versions: Invalid value: []: must have exactly one version marked as storage version",
    ],
  },
  {
    name: "two storage versions of the same name",
    given: { versions: [version, version] },
    want: [
      'spec.versions: Invalid value: ["v1","v1"]: must have exactly one version marked as storage version',
      'spec.versions: Invalid value: ["v1","v1"]: must contain unique version names',
    ],
  },
  {
    name: "a version with an invalid name",
    given: { versions: [version, { ...version, storage: false, name: "2" }] },
    want: [
      expect.stringMatching(/^spec\.versions\[1\]\.name: Invalid value: "2": a DNS-1035/) as string,
    ],
  },
  {
    name: "preserveUnknownFields true",
    given: { preserveUnknownFields: true },
    want: ["spec.preserveUnknownFields: Invalid value: true: must be false"],
  },
  { name: "preserveUnknownFields false", given: { preserveUnknownFields: false }, want: [] },
  {
    name: "an unknown conversion",
    given: { conversion: { strategy: "Magic" } },
    want: [
      'spec.conversion.strategy: Unsupported value: "Magic": supported values: "None", "Webhook"',
    ],
  },
  {
    name: "a conversion webhook for one version",
    given: { conversion: { strategy: "Webhook" } },
    want: [],
  },
  {
    name: "a conversion webhook for several versions",
    given: {
      conversion: { strategy: "Webhook" },
      versions: [version, { ...version, name: "v2", storage: false }],
    },
    want: [
      "spec.conversion.strategy: Forbidden: this server does not call conversion webhooks; a definition with several versions needs strategy None",
    ],
  },
];

const property = (of: Fields) => schema({ type: "object", properties: { p: of } });
const integerText = (field: string) =>
  `Invalid value: "string": ${field} in body must be of type integer: "string"`;

const VERSIONS: readonly Row[] = [
  {
    name: "no schema",
    given: { schema: undefined },
    want: [`${SCHEMA_AT}: Required value: schemas are required`],
  },
  {
    name: "no type",
    given: schema({ type: "", "x-kubernetes-preserve-unknown-fields": true }),
    want: [`${SCHEMA_AT}.type: Required value: must not be empty at the root`],
  },
  {
    name: "a root type other than object",
    given: schema({ type: "string" }),
    want: [`${SCHEMA_AT}.type: Invalid value: "string": must be object at the root`],
  },
  {
    name: "a schema that is not structural, whose defaults are not looked at",
    given: property({ default: 1 }),
    want: [
      `${SCHEMA_AT}.properties[p].type: Required value: must not be empty for specified object fields`,
    ],
  },
  {
    name: "defaults that violate the schema",
    given: property({
      type: "object",
      properties: {
        a: { type: "integer", default: "x" },
        b: { type: "array", items: { type: "integer", default: "x" } },
        c: { type: "object", additionalProperties: { type: "integer", default: "x" } },
        d: { type: "integer", default: 1 },
      },
    }),
    want: [
      `${SCHEMA_AT}.properties[p].properties[a].default: Invalid value: "x": ${integerText("default")}`,
      `${SCHEMA_AT}.properties[p].properties[b].items.default: Invalid value: "x": ${integerText("default")}`,
      `${SCHEMA_AT}.properties[p].properties[c].additionalProperties.default: Invalid value: "x": ${integerText("default")}`,
    ],
  },
  {
    name: "columns of each type",
    given: {
      additionalPrinterColumns: ["boolean", "date", "integer", "number", "string"].map((type) => ({
        name: type,
        type,
        jsonPath: ".a",
      })),
    },
    want: [],
  },
  {
    name: "columns without required fields",
    given: {
      additionalPrinterColumns: [
        { type: "string", name: "a" },
        { type: "x", jsonPath: ".a" },
      ],
    },
    want: [
      `${AT}.additionalPrinterColumns[0].jsonPath: Required value`,
      `${AT}.additionalPrinterColumns[1].name: Required value`,
      `${AT}.additionalPrinterColumns[1].type: Unsupported value: "x": supported values: "boolean", "date", "integer", "number", "string"`,
    ],
  },
  {
    name: "a scale",
    given: {
      subresources: {
        scale: { specReplicasPath: ".spec.r", statusReplicasPath: ".status.r" },
      },
    },
    want: [],
  },
  {
    name: "a scale with invalid paths",
    given: { subresources: { scale: { specReplicasPath: ".status.r" } } },
    want: [
      `${AT}.subresources.scale.specReplicasPath: Invalid value: ".status.r": should be a json path under .spec`,
      `${AT}.subresources.scale.statusReplicasPath: Required value`,
    ],
  },
  { name: "no scale", given: { subresources: { status: {} } }, want: [] },
];

test.each([
  ...SPECIFICATIONS,
  ...VERSIONS.map(({ name, given, want }) => ({
    name: `a version with ${name}`,
    given: { versions: [{ ...version, ...given }] },
    want,
  })),
])("a definition with $name", ({ given, want }) => {
  expect(refusals(DEFINITION, { metadata, spec: { ...spec, ...given } })).toEqual(want);
});

test.each([
  { group: "x.k8s.io", annotations: {}, want: [PROTECTED] },
  { group: "kubernetes.io", annotations: {}, want: [PROTECTED] },
  { group: "x.k8s.io", annotations: { "api-approved.kubernetes.io": "unapproved" }, want: [] },
  { group: "xk8s.io", annotations: {}, want: [] },
  { group: "k8s.io.x", annotations: {}, want: [] },
])("the group $group with $annotations needs $want", ({ group, annotations, want }) => {
  const given = { metadata: { name: `widgets.${group}`, annotations }, spec: { ...spec, group } };
  const causes = refusals(DEFINITION, given);
  expect(causes.map((cause) => cause.split(": ", 1)[0])).toEqual(want);
});

test("a version cannot be removed while objects are stored in it", () => {
  const given = { metadata, spec, status: { storedVersions: ["v1", "v0"] } };
  expect(refusals(DEFINITION, given)).toEqual([
    'status.storedVersions[1]: Invalid value: "v0": must appear in spec.versions',
  ]);
});

test.each([
  { change: { versions: [] }, want: [] },
  { change: { names: { ...names, shortNames: ["w"] } }, want: [] },
  {
    change: { group: "a", scope: "Cluster", names: { plural: "b", kind: "c" } },
    want: [
      'spec.scope: Invalid value: "Cluster": field is immutable',
      'spec.group: Invalid value: "a": field is immutable',
      'spec.names.kind: Invalid value: "c": field is immutable',
      'spec.names.plural: Invalid value: "b": field is immutable',
    ],
  },
])("a change of a definition to $change: $want", ({ change, want }) => {
  expect(changeRefusals(DEFINITION, { spec }, { spec: { ...spec, ...change } })).toEqual(want);
});
