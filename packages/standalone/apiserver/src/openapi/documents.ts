// SPDX-License-Identifier: Apache-2.0
// OpenAPI documents: one for all kinds in v2, one for each group version in v3.
import { createHash } from "node:crypto";
import { type Kind, apiVersionOf } from "../kinds/kind.ts";
import { type Fields, asFields, isFields, without } from "../objects/json.ts";
import { type ObjectShape, LIST_META, OBJECT_META, kindShape } from "../shapes/shape.ts";
import {
  type OpenApiVersion,
  reference,
  shapeDefinitions,
  typeDefinitionName,
} from "./shape-definitions.ts";

const SUPPORTED_KEYWORDS = new Set([
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

const KEYWORDS_NOT_IN_V2 = new Set(["oneOf", "anyOf", "allOf", "not", "nullable", "default"]);

function convertMember(key: string, value: unknown, version: OpenApiVersion): unknown {
  if (key === "properties") {
    const properties = Object.entries(asFields(value));
    return Object.fromEntries(
      properties.map(([name, property]) => [name, toOpenApi(asFields(property), version)]),
    );
  }
  if (Array.isArray(value) && ["oneOf", "anyOf", "allOf"].includes(key)) {
    return value.map((part) => toOpenApi(asFields(part), version));
  }
  return isFields(value) && ["items", "additionalProperties", "not"].includes(key)
    ? toOpenApi(value, version)
    : value;
}

/** Returns true if the document must omit the schema's properties. If v2 listed properties, clients would reject all other fields. */
function allowsUnknownFields(schema: Fields, version: OpenApiVersion): boolean {
  return version === "v2" && schema["x-kubernetes-preserve-unknown-fields"] === true;
}

function toOpenApi(schema: Fields, version: OpenApiVersion): Fields {
  const omitsProperties = allowsUnknownFields(schema, version);
  const members = Object.entries(schema).filter(
    ([key]) =>
      (SUPPORTED_KEYWORDS.has(key) || key.startsWith("x-kubernetes-")) &&
      !(version === "v2" && KEYWORDS_NOT_IN_V2.has(key)) &&
      !(omitsProperties && (key === "properties" || key === "required")),
  );
  return Object.fromEntries(
    members.map(([key, value]) => [key, convertMember(key, value, version)]),
  );
}

/** Returns, for example, `io.k8s.api.coordination.v1.Lease`. */
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
  const { properties, ...schemaMembers } = toOpenApi(schema, version);
  const metadata = reference(typeDefinitionName(OBJECT_META), version);
  return {
    ...schemaMembers,
    type: "object",
    properties: {
      ...typeMeta(kind),
      metadata,
      ...without(asFields(properties), "apiVersion", "kind", "metadata"),
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

function rootShapes(kind: Kind): ObjectShape[] {
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

export function buildDefinitions(kinds: readonly Kind[], version: OpenApiVersion): Fields {
  const typeDefinitions = shapeDefinitions(
    [OBJECT_META, LIST_META, ...kinds.flatMap(rootShapes)],
    version,
  );
  const customDefinitions = kinds.flatMap((kind) =>
    kind.custom === undefined
      ? []
      : [[definitionName(kind), customDefinition(kind, kind.custom.schema, version)] as const],
  );
  const listDefinitions = kinds
    .filter(({ verbs }) => verbs.includes("list"))
    .map((kind) => [`${definitionName(kind)}List`, listDefinition(kind, version)] as const);
  return Object.fromEntries([...typeDefinitions, ...customDefinitions, ...listDefinitions]);
}

const INFO = { title: "Kubernetes", version: "v1.30.0" };

/** Returns `api/v1` or `apis/<group>/<version>`. */
export function buildVersionPath(kind: Pick<Kind, "group" | "version">): string {
  return kind.group === "" ? `api/${kind.version}` : `apis/${apiVersionOf(kind)}`;
}

/** Builds the parameters dryRun and fieldValidation. kubectl uses them only if the document lists them. */
function buildParameters(version: OpenApiVersion): Fields[] {
  const typeFields = version === "v2" ? { type: "string" } : { schema: { type: "string" } };
  return ["dryRun", "fieldValidation"].map((name) => ({ name, in: "query", ...typeFields }));
}

function buildOperation(kind: Kind, action: string, version: OpenApiVersion): Fields {
  return {
    "x-kubernetes-action": action,
    "x-kubernetes-group-version-kind": {
      group: kind.group,
      version: kind.version,
      kind: kind.kind,
    },
    parameters: action === "get" || action === "list" ? [] : buildParameters(version),
    responses: { "200": { description: "OK" } },
  };
}

function buildPaths(kind: Kind, version: OpenApiVersion): Fields {
  const namespace = kind.namespaced ? "/namespaces/{namespace}" : "";
  const collection = `/${buildVersionPath(kind)}${namespace}/${kind.resource}`;
  return {
    [collection]: {
      get: buildOperation(kind, "list", version),
      post: buildOperation(kind, "post", version),
    },
    [`${collection}/{name}`]: {
      get: buildOperation(kind, "get", version),
      put: buildOperation(kind, "put", version),
      patch: buildOperation(kind, "patch", version),
      delete: buildOperation(kind, "delete", version),
    },
  };
}

function buildAllPaths(kinds: readonly Kind[], version: OpenApiVersion): Fields {
  return Object.assign({}, ...kinds.map((kind) => buildPaths(kind, version))) as Fields;
}

export function toSwagger(kinds: readonly Kind[]): Fields {
  return {
    swagger: "2.0",
    info: INFO,
    paths: buildAllPaths(kinds, "v2"),
    definitions: buildDefinitions(kinds, "v2"),
  };
}

export function toOpenApi3(kinds: readonly Kind[]): Fields {
  return {
    openapi: "3.0.0",
    info: INFO,
    paths: buildAllPaths(kinds, "v3"),
    components: { schemas: buildDefinitions(kinds, "v3") },
  };
}

/** Document hashes, by the document's first kind. A hash is outdated if the document's list of kinds has changed. */
const HASHES = new WeakMap<Kind, { readonly kinds: readonly Kind[]; readonly hash: string }>();

function hashDocument(kinds: readonly Kind[]): string {
  const [firstKind] = kinds;
  const cachedEntry = firstKind === undefined ? undefined : HASHES.get(firstKind);
  if (
    cachedEntry?.kinds.length === kinds.length &&
    cachedEntry.kinds.every((kind, index) => kind === kinds[index])
  ) {
    return cachedEntry.hash;
  }
  const text = JSON.stringify(toOpenApi3(kinds));
  const hash = createHash("sha256").update(text).digest("hex").slice(0, 32).toUpperCase();
  if (firstKind !== undefined) {
    HASHES.set(firstKind, { kinds, hash });
  }
  return hash;
}

/** Returns the document's path with a hash, which lets clients cache the document. */
export function documentAddress(path: string, kinds: readonly Kind[]): string {
  return `/openapi/v3/${path}?hash=${hashDocument(kinds)}`;
}

export function toIndex(kinds: readonly Kind[]): Fields {
  const byPath = new Map<string, Kind[]>();
  for (const kind of kinds) {
    const path = buildVersionPath(kind);
    byPath.set(path, [...(byPath.get(path) ?? []), kind]);
  }
  const paths = [...byPath].map(
    ([path, kindsOfVersion]) =>
      [path, { serverRelativeURL: documentAddress(path, kindsOfVersion) }] as const,
  );
  return { paths: Object.fromEntries(paths) };
}
