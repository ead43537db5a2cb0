// SPDX-License-Identifier: Apache-2.0
// The forms of all kinds, under the names by which OpenAPI documents refer to them.
import { type Kind, apiVersionOf } from "../kinds/kind.ts";
import { type Fields, fieldsOf, isFields } from "../objects/json.ts";
import { listMergeOf } from "../patch/merge-keys.ts";
import { META_DEFINITIONS, OBJECT_META, LIST_META } from "./meta-definitions.ts";

/** Which version of OpenAPI; they name references differently. */
export type OpenApiVersion = "v2" | "v3";

/** Members of our schemas that clients know. */
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

function reference(name: string, version: OpenApiVersion): Fields {
  return { $ref: version === "v2" ? `#/definitions/${name}` : `#/components/schemas/${name}` };
}

/** Tells clients how a list of a built-in kind is merged. */
function mergeHints(parent: string, field: string, schema: Fields): Fields {
  const merge = schema["type"] === "array" ? listMergeOf(parent, field) : undefined;
  if (merge === undefined) {
    return {};
  }
  const strategy = { "x-kubernetes-patch-strategy": "merge" };
  return merge === "set" ? strategy : { ...strategy, "x-kubernetes-patch-merge-key": merge.by };
}

/** Where a schema stands. */
interface Place {
  readonly version: OpenApiVersion;
  readonly builtIn: boolean;
  readonly parent: string;
  readonly depth: number;
}

function toProperties(properties: Fields, place: Place, parent: string): Fields {
  return Object.fromEntries(
    Object.entries(properties).map(([key, property]) => {
      const schema = fieldsOf(property);
      const hints = place.builtIn ? mergeHints(parent, key, schema) : {};
      const below = { ...place, parent: key, depth: place.depth + 1 };
      return [key, { ...toOpenApi(schema, below), ...hints }];
    }),
  );
}

function toMember(key: string, value: unknown, place: Place): unknown {
  const below = { ...place, depth: place.depth + 1 };
  if (key === "properties") {
    return toProperties(fieldsOf(value), place, place.parent);
  }
  if (Array.isArray(value) && ["oneOf", "anyOf", "allOf"].includes(key)) {
    return value.map((part) => toOpenApi(fieldsOf(part), below));
  }
  return isFields(value) && ["items", "additionalProperties", "not"].includes(key)
    ? toOpenApi(value, below)
    : value;
}

/** Our schemas of built-in kinds name the usual fields only; an old client would refuse the others, so below the first level it is told none. */
function isOpen(schema: Fields, place: Place): boolean {
  return (
    place.version === "v2" &&
    place.depth > 0 &&
    schema["x-kubernetes-preserve-unknown-fields"] === true
  );
}

function toOpenApi(schema: Fields, place: Place): Fields {
  const open = isOpen(schema, place);
  const members = Object.entries(schema).filter(
    ([key]) =>
      (KEPT.has(key) || key.startsWith("x-kubernetes-")) &&
      !(place.version === "v2" && NOT_IN_V2.has(key)) &&
      !(open && (key === "properties" || key === "required")),
  );
  return Object.fromEntries(members.map(([key, value]) => [key, toMember(key, value, place)]));
}

/** The name of a kind's definition, for example `io.k8s.coordination.v1.Lease`. */
export function definitionName(kind: Kind): string {
  const group = kind.group === "" ? "io.k8s.api.core" : kind.group.split(".").reverse().join(".");
  return `${group}.${kind.version}.${kind.kind}`;
}

function groupVersionKind(kind: Kind, name: string): Fields {
  return {
    "x-kubernetes-group-version-kind": [{ group: kind.group, version: kind.version, kind: name }],
  };
}

function toDefinitions(kind: Kind, version: OpenApiVersion): [string, Fields][] {
  const place = { version, builtIn: kind.custom === undefined, parent: "", depth: 0 };
  const schema = toOpenApi(kind.strategy.schema, place);
  const text = (description: string) => ({ type: "string", description });
  const typeMeta = {
    apiVersion: text(`APIVersion of the object: ${apiVersionOf(kind)}.`),
    kind: text("Kind of the object."),
  };
  const object = {
    ...schema,
    type: "object",
    properties: {
      ...fieldsOf(schema["properties"]),
      ...typeMeta,
      metadata: reference(OBJECT_META, version),
    },
    ...groupVersionKind(kind, kind.kind),
  };
  const list = {
    type: "object",
    required: ["items"],
    properties: {
      ...typeMeta,
      metadata: reference(LIST_META, version),
      items: { type: "array", items: reference(definitionName(kind), version) },
    },
    ...groupVersionKind(kind, kind.listKind),
  };
  return [
    [definitionName(kind), object],
    [`${definitionName(kind)}List`, list],
  ];
}

/** Definitions of kinds, with the ones that they refer to. */
export function definitionsOf(kinds: readonly Kind[], version: OpenApiVersion): Fields {
  const own = kinds.flatMap((kind) => toDefinitions(kind, version));
  const printed = JSON.stringify(META_DEFINITIONS);
  const prefix = version === "v2" ? "#/definitions/" : "#/components/schemas/";
  // The meta definitions are written with a placeholder for where references lead.
  const meta = JSON.parse(printed.replaceAll("#REF#/", prefix)) as Fields;
  return { ...meta, ...Object.fromEntries(own) };
}
