// SPDX-License-Identifier: Apache-2.0
// The forms of built-in kinds in the words of OpenAPI: a definition for each type, which others refer to.
import type { Fields } from "../objects/json.ts";
import {
  type FieldShape,
  type ObjectShape,
  type Scalar,
  type Shape,
  kindOfType,
} from "../shapes/shape.ts";
import { descriptionOf } from "./descriptions.ts";

/** Which version of OpenAPI; they name references differently. */
export type OpenApiVersion = "v2" | "v3";

/** Where Kubernetes keeps types that are not below `io.k8s.api`. */
const HOMES: Readonly<Record<string, string>> = {
  meta: "io.k8s.apimachinery.pkg.apis.meta",
  apiextensions: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
  apiregistration: "io.k8s.kube-aggregator.pkg.apis.apiregistration",
};

/** The name under which a type's definition is found, for example `io.k8s.api.core.v1.Pod`. */
export function typeDefinitionName(shape: ObjectShape): string {
  const [home = "", ...rest] = shape.name.split(".");
  return [HOMES[home] ?? `io.k8s.api.${home}`, ...rest].join(".");
}

/** How a document refers to a definition. */
export function reference(name: string, version: OpenApiVersion): Fields {
  return { $ref: version === "v2" ? `#/definitions/${name}` : `#/components/schemas/${name}` };
}

const SCALARS: Readonly<Record<Scalar, Fields>> = {
  string: { type: "string" },
  boolean: { type: "boolean" },
  int32: { type: "integer", format: "int32" },
  int64: { type: "integer", format: "int64" },
  double: { type: "number", format: "double" },
  bytes: { type: "string", format: "byte" },
  time: { type: "string", format: "date-time" },
  "micro-time": { type: "string", format: "date-time" },
  "int-or-string": { type: "string", format: "int-or-string" },
  quantity: { type: "string" },
  any: { type: "object" },
};

/** What v3 can say better: values that are numbers or texts, and anything at all. */
const SCALARS_V3: Readonly<Partial<Record<Scalar, Fields>>> = {
  "int-or-string": { oneOf: [{ type: "integer" }, { type: "string" }], format: "int-or-string" },
  quantity: { oneOf: [{ type: "string" }, { type: "number" }] },
  any: { "x-kubernetes-preserve-unknown-fields": true },
};

function toSchema(shape: Shape, version: OpenApiVersion): Fields {
  switch (shape.type) {
    case "scalar":
      return (version === "v3" ? SCALARS_V3[shape.scalar] : undefined) ?? SCALARS[shape.scalar];
    case "list":
      return { type: "array", items: toSchema(shape.of, version) };
    case "map":
      return { type: "object", additionalProperties: toSchema(shape.of, version) };
    case "object":
      return reference(typeDefinitionName(shape), version);
  }
}

function mergeHints({ merge }: FieldShape): Fields {
  if (merge === undefined) {
    return {};
  }
  return {
    ...(merge.key === undefined ? {} : { "x-kubernetes-patch-merge-key": merge.key }),
    "x-kubernetes-patch-strategy": merge.strategy,
  };
}

function describe(name: string): Fields {
  const description = descriptionOf(name);
  return description === undefined ? {} : { description };
}

function toDefinition(shape: ObjectShape, version: OpenApiVersion): Fields {
  const fields = [...shape.fields];
  const required = fields.filter(([, field]) => field.required).map(([name]) => name);
  const gvk = kindOfType(shape.name);
  return {
    type: "object",
    ...describe(shape.name),
    ...(required.length === 0 ? {} : { required }),
    properties: Object.fromEntries(
      fields.map(([name, field]) => [
        name,
        {
          ...describe(`${shape.name}.${name}`),
          ...toSchema(field.shape, version),
          ...mergeHints(field),
        },
      ]),
    ),
    ...(gvk === undefined ? {} : { "x-kubernetes-group-version-kind": [gvk] }),
  };
}

/** The types that a value of this form has right inside it. */
function partsOf(shape: Shape): ObjectShape[] {
  switch (shape.type) {
    case "scalar":
      return [];
    case "list":
    case "map":
      return partsOf(shape.of);
    case "object":
      return [shape];
  }
}

/** Definitions of these types and of all types that they refer to, sorted by name. */
export function shapeDefinitions(
  roots: readonly ObjectShape[],
  version: OpenApiVersion,
): readonly (readonly [string, Fields])[] {
  const found = new Set<ObjectShape>();
  const waiting = [...roots];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    if (!found.has(next)) {
      found.add(next);
      waiting.push(...[...next.fields.values()].flatMap(({ shape }) => partsOf(shape)));
    }
  }
  return [...found]
    .map((shape) => [typeDefinitionName(shape), toDefinition(shape, version)] as const)
    .sort(([left], [right]) => (left < right ? -1 : 1));
}
