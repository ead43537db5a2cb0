// SPDX-License-Identifier: Apache-2.0
// The forms of all kinds, under the names by which OpenAPI documents refer to them.
import { type Kind, apiVersionOf } from "../kinds/kind.ts";
import { type Fields, fieldsOf, isFields, without } from "../objects/json.ts";
import { LIST_META, OBJECT_META, type ObjectShape, kindShape } from "../shapes/shape.ts";
import {
  type OpenApiVersion,
  reference,
  shapeDefinitions,
  typeDefinitionName,
} from "./shape-definitions.ts";

/** Members of custom resources' schemas that clients know. */
const KEPT = new Set([
  "type",
  "description",
  "format",
  "properties",
  "items",
  "additionalProperties",
  "required",
  "enum",
  "default",
  "nullable",
  "minimum",
  "maximum",
  "minLength",
  "maxLength",
  "pattern",
  "minItems",
  "maxItems",
  "oneOf",
  "anyOf",
  "allOf",
  "not",
]);

/** Members that OpenAPI v2 does not know. */
const NOT_IN_V2 = new Set(["oneOf", "anyOf", "allOf", "not", "nullable", "default"]);

function toMember(key: string, value: unknown, version: OpenApiVersion): unknown {
  if (key === "properties") {
    const properties = Object.entries(fieldsOf(value));
    return Object.fromEntries(
      properties.map(([name, property]) => [name, toOpenApi(fieldsOf(property), version)]),
    );
  }
  if (Array.isArray(value) && ["oneOf", "anyOf", "allOf"].includes(key)) {
    return value.map((part) => toOpenApi(fieldsOf(part), version));
  }
  return isFields(value) && ["items", "additionalProperties", "not"].includes(key)
    ? toOpenApi(value, version)
    : value;
}

/** Fields beside those of the schema: an old client would refuse them, so v2 tells it of none. */
function isOpen(schema: Fields, version: OpenApiVersion): boolean {
  return version === "v2" && schema["x-kubernetes-preserve-unknown-fields"] === true;
}

function toOpenApi(schema: Fields, version: OpenApiVersion): Fields {
  const open = isOpen(schema, version);
  const members = Object.entries(schema).filter(
    ([key]) =>
      (KEPT.has(key) || key.startsWith("x-kubernetes-")) &&
      !(version === "v2" && NOT_IN_V2.has(key)) &&
      !(open && (key === "properties" || key === "required")),
  );
  return Object.fromEntries(members.map(([key, value]) => [key, toMember(key, value, version)]));
}

/** The name of a kind's definition, for example `io.k8s.api.coordination.v1.Lease`. */
function definitionName(kind: Kind): string {
  return kind.shape === undefined
    ? [...kind.group.split(".").reverse(), kind.version, kind.kind].join(".")
    : typeDefinitionName(kind.shape);
}

function groupVersionKind(kind: Kind, name: string): Fields {
  return {
    "x-kubernetes-group-version-kind": [{ group: kind.group, version: kind.version, kind: name }],
  };
}

function typeMeta(kind: Kind): Fields {
  const text = (description: string) => ({ type: "string", description });
  return {
    apiVersion: text(`Group and version: ${apiVersionOf(kind)}.`),
    kind: text("Kind of the object."),
  };
}

function customDefinition(kind: Kind, schema: Fields, version: OpenApiVersion): Fields {
  const { properties, ...own } = toOpenApi(schema, version);
  const metadata = reference(typeDefinitionName(OBJECT_META), version);
  return {
    ...own,
    type: "object",
    properties: {
      ...typeMeta(kind),
      metadata,
      // A definition's own words on these: the server's hold.
      ...without(fieldsOf(properties), "apiVersion", "kind", "metadata"),
    },
    ...groupVersionKind(kind, kind.kind),
  };
}

function listDefinition(kind: Kind, version: OpenApiVersion): Fields {
  return {
    type: "object",
    description: `A list of ${kind.kind}.`,
    required: ["items"],
    properties: {
      ...typeMeta(kind),
      metadata: reference(typeDefinitionName(LIST_META), version),
      items: { type: "array", items: reference(definitionName(kind), version) },
    },
    ...groupVersionKind(kind, kind.listKind),
  };
}

/** Types of a kind, and of bodies that its subresources take. */
function rootsOf(kind: Kind): ObjectShape[] {
  const bodies = kind.subresources.map((subresource) =>
    subresource.kind === undefined
      ? undefined
      : kindShape(
          apiVersionOf({
            group: subresource.group ?? kind.group,
            version: subresource.version ?? kind.version,
          }),
          subresource.kind,
        ),
  );
  return [kind.shape, ...bodies].filter((shape) => shape !== undefined);
}

/** Definitions of kinds, with the ones that they refer to. */
export function definitionsOf(kinds: readonly Kind[], version: OpenApiVersion): Fields {
  const typed = shapeDefinitions([OBJECT_META, LIST_META, ...kinds.flatMap(rootsOf)], version);
  const custom = kinds.flatMap((kind) =>
    kind.custom === undefined
      ? []
      : [[definitionName(kind), customDefinition(kind, kind.custom.schema, version)] as const],
  );
  const lists = kinds
    .filter(({ verbs }) => verbs.includes("list"))
    .map((kind) => [`${definitionName(kind)}List`, listDefinition(kind, version)] as const);
  return Object.fromEntries([...typed, ...custom, ...lists]);
}
