// SPDX-License-Identifier: Apache-2.0
// Defaulting and validation of a kind, without a server.
import type { Kind } from "../kinds/kind.ts";
import { apiVersionOf } from "../kinds/kind.ts";
import type { Cause } from "../meta/status.ts";
import { type Fields, copyJson, asFields } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import { toRow, toTable } from "../table/table.ts";

/** Builds an object. `fields` may include metadata. */
export function objectOf(kind: Kind, fields: Fields = {}): KubeObject {
  const { metadata, ...rest } = copyJson(fields);
  return {
    apiVersion: apiVersionOf(kind),
    kind: kind.kind,
    metadata: { name: "o", ...asFields(metadata) },
    ...rest,
  };
}

export function withDefaults(kind: Kind, fields: Fields): KubeObject {
  const object = objectOf(kind, fields);
  kind.strategy.applyDefaults?.(object);
  return object;
}

/** Returns the object as it is stored after a POST. */
export function created(kind: Kind, fields: Fields = {}): KubeObject {
  const object = withDefaults(kind, fields);
  kind.strategy.prepareCreate?.(object);
  return object;
}

/** Prints each cause as `field: message`. */
export function printCauses(causes: readonly Cause[]): readonly string[] {
  return causes.map(({ field = "", message }) => `${field}: ${message}`);
}

export function refusals(kind: Kind, fields: Fields): readonly string[] {
  return printCauses(kind.strategy.validate?.(withDefaults(kind, fields)) ?? []);
}

/** Returns the causes of an update, without the causes of a new object. */
export function changeRefusals(kind: Kind, before: Fields, after: Fields): readonly string[] {
  const current = withDefaults(kind, before);
  return printCauses(kind.strategy.validateUpdate?.(withDefaults(kind, after), current) ?? []);
}

/** Returns the cells of `kubectl get -o wide` by column name. */
export function cellsOf(kind: Kind, fields: Fields, nowMs = 0): Fields {
  const options = { kind, include: "None", nowMs, includesColumns: true } as const;
  const { columnDefinitions } = toTable([], {}, options);
  const { cells } = toRow(objectOf(kind, fields), options);
  const names = (columnDefinitions as readonly Fields[]).map(({ name }) => String(name));
  return Object.fromEntries(names.map((name, index) => [name, (cells as unknown[])[index]]));
}
