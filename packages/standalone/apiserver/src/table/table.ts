// SPDX-License-Identifier: Apache-2.0
// Builds tables for `kubectl get`. Source: metav1.Table.
import type { Column, Kind } from "../kinds/kind.ts";
import type { Fields } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";

export type IncludeObject = "Metadata" | "Object" | "None";

export interface TableOptions {
  readonly kind: Kind;
  readonly include: IncludeObject;
  readonly nowMs: number;
  /** Whether to include column definitions, which a watch sends in its first event only. */
  readonly includesColumns: boolean;
}

const NAME_COLUMN: Column = {
  name: "Name",
  type: "string",
  format: "name",
  description: "Name must be unique within a namespace.",
  cell: (object) => object.metadata.name,
};

function toDefinition(column: Column): Fields {
  return {
    name: column.name,
    type: column.type,
    format: column.format ?? "",
    description: column.description ?? "",
    priority: column.priority ?? 0,
  };
}

/** Converts an object to its metadata. Source: metav1.PartialObjectMetadata. */
export function toPartial(object: KubeObject): Fields {
  return {
    kind: "PartialObjectMetadata",
    apiVersion: "meta.k8s.io/v1",
    metadata: object.metadata,
  };
}

/** Returns the columns. Inserts the column Name first, unless a built-in kind such as Event has its own column Name. */
function listColumns(kind: Kind): readonly Column[] {
  const kindColumns = kind.strategy.columns;
  const hasNameColumn =
    kind.custom === undefined && kindColumns.some(({ name }) => name === NAME_COLUMN.name);
  return hasNameColumn ? kindColumns : [NAME_COLUMN, ...kindColumns];
}

export function toRow(object: KubeObject, options: TableOptions): Fields {
  const columns = listColumns(options.kind);
  const cells = columns.map((column) => column.cell(object, options.nowMs) ?? null);
  const rowObject: Readonly<Record<IncludeObject, Fields>> = {
    None: {},
    Object: { object },
    Metadata: { object: toPartial(object) },
  };
  return { cells, ...rowObject[options.include] };
}

export function toTable(
  objects: readonly KubeObject[],
  metadata: Fields,
  options: TableOptions,
): Fields {
  const columns = listColumns(options.kind);
  return {
    kind: "Table",
    apiVersion: "meta.k8s.io/v1",
    metadata,
    columnDefinitions: options.includesColumns ? columns.map(toDefinition) : [],
    rows: objects.map((object) => toRow(object, options)),
  };
}
