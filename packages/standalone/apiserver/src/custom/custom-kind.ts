// SPDX-License-Identifier: Apache-2.0
import {
  type Column,
  type CustomKind,
  type Kind,
  type ScaleValues,
  type Strategy,
  type Subresource,
  ALL_VERBS,
} from "../kinds/kind.ts";
import {
  type Fields,
  asText,
  asFields,
  isFields,
  asList,
  textAt,
  valueAt,
} from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import { parseTime } from "../objects/time.ts";
import { applyDefaults, pruneObject, unknownFields } from "../schema/prune-and-default.ts";
import { makeValidator } from "../schema/validator.ts";
import { AGE, printAge } from "../table/age.ts";
import { parsePath } from "../table/json-path.ts";

function toColumnType(type: string): Column["type"] {
  switch (type) {
    case "integer":
    case "number":
    case "boolean":
    case "date":
      return type;
    default:
      return "string";
  }
}

/** Converters from a value to a cell, by column type. They return null for a value of the wrong type; `string` accepts any value. */
const CELLS: Readonly<Record<Column["type"], (value: unknown, nowMs: number) => unknown>> = {
  boolean: (value) => (typeof value === "boolean" ? value : null),
  date: (value, nowMs) => (typeof value === "string" ? dateCell(value, nowMs) : null),
  integer: (value) => (typeof value === "number" ? Math.trunc(value) : toBigInteger(value)),
  number: (value) => (typeof value === "number" ? value : toBigInteger(value)),
  string: asText,
};

function dateCell(text: string, nowMs: number): string {
  return Number.isNaN(parseTime(text)) ? "<invalid>" : printAge(text, nowMs);
}

function toBigInteger(value: unknown): unknown {
  return typeof value === "bigint" ? value : null;
}

function toCell(type: Column["type"], value: unknown, nowMs: number): unknown {
  return value === undefined || value === null ? null : CELLS[type](value, nowMs);
}

/** Converts a printer column. Source: apiextensions/v1 CustomResourceColumnDefinition. */
export function toColumn(definition: Fields): Column {
  const find = parsePath(textAt(definition, "jsonPath"));
  const type = toColumnType(textAt(definition, "type"));
  return {
    name: textAt(definition, "name"),
    type,
    format: textAt(definition, "format"),
    description: textAt(definition, "description"),
    priority: Number(valueAt(definition, "priority") ?? 0),
    cell: (object, nowMs) => {
      const values = find(object);
      const value = values.length > 1 ? values.map(String).join(",") : values[0];
      return toCell(type, value, nowMs);
    },
  };
}

export function toColumns(definitions: unknown): readonly Column[] {
  const columns = asList(definitions).map((definition) => toColumn(asFields(definition)));
  return columns.length === 0 ? [AGE] : columns;
}

function scaleValues(scale: unknown): ScaleValues | undefined {
  if (!isFields(scale)) {
    return undefined;
  }
  const path = (key: string) =>
    textAt(scale, key)
      .split(".")
      .filter((part) => part !== "");
  const selector = path("labelSelectorPath");
  return {
    specReplicasPath: path("specReplicasPath"),
    statusReplicasPath: path("statusReplicasPath"),
    selector: (object) => (selector.length === 0 ? "" : textAt(object, ...selector)),
  };
}

function toSubresources(hasStatus: boolean, hasScale: boolean): Subresource[] {
  const verbs = ["get", "patch", "update"] as const;
  return [
    ...(hasStatus ? [{ name: "status", verbs }] : []),
    ...(hasScale
      ? [{ name: "scale", verbs, kind: "Scale", group: "autoscaling", version: "v1" }]
      : []),
  ];
}

function toStrategy(version: Fields): Strategy {
  const schema = asFields(valueAt(version, "schema", "openAPIV3Schema"));
  const validate = makeValidator(schema);
  const selectablePaths = asList(version["selectableFields"]).map((field) =>
    textAt(field, "jsonPath"),
  );
  return {
    hasStatus: isFields(valueAt(version, "subresources", "status")),
    statusWritesMetadata: false,
    hasGeneration: true,
    allowsUnconditionalUpdate: false,
    allowsCreateOnUpdate: false,
    allowsStrategicMerge: false,
    applyDefaults: (object: KubeObject) => {
      pruneObject(object, schema);
      applyDefaults(object, {
        ...schema,
        properties: { ...asFields(schema["properties"]), metadata: {} },
      });
    },
    unknownFields: (object) => unknownFields(object, schema).map(({ path }) => path),
    validate: (object) => validate(object),
    selectableFields: Object.fromEntries(
      selectablePaths.map((path) => [
        path.slice(1),
        (object: KubeObject) => {
          return asText(valueAt(object, ...path.slice(1).split(".")));
        },
      ]),
    ),
    columns: toColumns(version["additionalPrinterColumns"]),
  };
}

function toDeprecation(
  version: Fields,
  apiVersion: string,
  kind: string,
): { deprecationWarning?: string } {
  if (version["deprecated"] !== true) {
    return {};
  }
  const text = textAt(version, "deprecationWarning");
  return { deprecationWarning: text === "" ? `${apiVersion} ${kind} is deprecated` : text };
}

function toStrings(value: unknown): string[] {
  return asList(value).filter((item): item is string => typeof item === "string");
}

function toKind(definition: KubeObject, version: Fields, schemaRevision: number): Kind {
  const names = asFields(valueAt(definition, "status", "acceptedNames"));
  const group = textAt(definition, "spec", "group");
  const versions = asList(valueAt(definition, "spec", "versions"));
  const storageVersion = versions.find((candidate) => valueAt(candidate, "storage") === true);
  const name = textAt(version, "name");
  const strategy = toStrategy(version);
  const scale = scaleValues(valueAt(version, "subresources", "scale"));
  const custom: CustomKind = {
    storageApiVersion: `${group}/${textAt(storageVersion, "name")}`,
    schemaRevision,
    isTerminating: definition.metadata.deletionTimestamp !== undefined,
    schema: asFields(valueAt(version, "schema", "openAPIV3Schema")),
    ...toDeprecation(version, `${group}/${name}`, textAt(names, "kind")),
  };
  return {
    group,
    version: name,
    resource: textAt(names, "plural"),
    kind: textAt(names, "kind"),
    listKind: textAt(names, "listKind"),
    singular: textAt(names, "singular"),
    shortNames: toStrings(names["shortNames"]),
    categories: toStrings(names["categories"]),
    namespaced: textAt(definition, "spec", "scope") === "Namespaced",
    verbs: custom.isTerminating ? ALL_VERBS.filter((verb) => verb !== "create") : ALL_VERBS,
    subresources: toSubresources(strategy.hasStatus, scale !== undefined),
    strategy,
    ...(scale === undefined ? {} : { scale }),
    custom,
  };
}

/** Returns the kinds of the served versions, or an empty list until the definition is established. */
export function toKinds(definition: KubeObject, schemaRevision: number): readonly Kind[] {
  const isEstablished = asList(valueAt(definition, "status", "conditions")).some(
    (condition) =>
      textAt(condition, "type") === "Established" && textAt(condition, "status") === "True",
  );
  return isEstablished
    ? asList(valueAt(definition, "spec", "versions"))
        .map(asFields)
        .filter((version) => version["served"] === true)
        .map((version) => toKind(definition, version, schemaRevision))
    : [];
}
