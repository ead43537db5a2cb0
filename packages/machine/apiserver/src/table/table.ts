// SPDX-License-Identifier: Apache-2.0
// Objects as rows, for `kubectl get`. Source: metav1.Table.
import type { Column, Kind } from "../kinds/kind.ts";
import type { Fields } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";

/** What of the object goes into a row: metadata, all, nothing. */
export type IncludeObject = "Metadata" | "Object" | "None";

/** How a table is made. */
export interface TableOptions {
  readonly kind: Kind;
  readonly include: IncludeObject;
  readonly nowMs: number;
  /** Whether columns are described; a watch does so in its first event only. */
  readonly headers: boolean;
}

const NAME: Column = {
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

/** Only the metadata of an object. Source: metav1.PartialObjectMetadata. */
export function toPartial(object: KubeObject): Fields {
  return {
    kind: "PartialObjectMetadata",
    apiVersion: "meta.k8s.io/v1",
    metadata: object.metadata,
  };
}

/** Name comes first, but for events, which have a place of their own for it. */
function columnsOf(kind: Kind): readonly Column[] {
  const own = kind.strategy.columns;
  const isPlaced = kind.custom === undefined && own.some(({ name }) => name === NAME.name);
  return isPlaced ? own : [NAME, ...own];
}

/** One object as a row. */
export function toRow(object: KubeObject, options: TableOptions): Fields {
  const columns = columnsOf(options.kind);
  const cells = columns.map((column) => column.cell(object, options.nowMs) ?? null);
  const shown: Readonly<Record<IncludeObject, Fields>> = {
    None: {},
    Object: { object },
    Metadata: { object: toPartial(object) },
  };
  return { cells, ...shown[options.include] };
}

/** A table of objects; `metadata` is the list's. */
export function toTable(
  objects: readonly KubeObject[],
  metadata: Fields,
  options: TableOptions,
): Fields {
  const columns = columnsOf(options.kind);
  return {
    kind: "Table",
    apiVersion: "meta.k8s.io/v1",
    metadata,
    columnDefinitions: options.headers ? columns.map(toDefinition) : [],
    rows: objects.map((object) => toRow(object, options)),
  };
}
