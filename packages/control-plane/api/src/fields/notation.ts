// SPDX-License-Identifier: Apache-2.0
// Builders for schemas, with marks for fields and values that Patchbay does not support.
import type { TOptional, TUnsafe } from "typebox";
import { Type } from "./schema.ts";

export type JsonSchema = Readonly<Record<string, unknown>>;

/**
 * How Patchbay treats a field. acted: implemented. harmless: stored with a warning, because the guest does not depend
 * on it. unbuilt: not supported, so a VM that sets it is stored but not started.
 */
export type FieldList = "acted" | "harmless" | "unbuilt";

export interface FieldMark {
  readonly list: Exclude<FieldList, "acted">;
  /** Returns true for values that match the default behavior. */
  readonly unless?: (value: unknown) => boolean;
  readonly hint?: string;
}

/** Schema keyword that holds the mark. It is not a Kubernetes keyword, so it is left out of the CRDs. */
const MARK = "patchbayField";

/** Untyped, so that no code reads the field before it is implemented. */
type UnreadField = TOptional<TUnsafe>;

function marked(schema: JsonSchema, mark: FieldMark): UnreadField {
  return Type.Optional(Type.Unsafe<unknown>({ ...schema, [MARK]: mark }));
}

export function harmless(schema: JsonSchema): UnreadField {
  return marked(schema, { list: "harmless" });
}

export function unbuilt(schema: JsonSchema, more: Omit<FieldMark, "list"> = {}): UnreadField {
  return marked(schema, { list: "unbuilt", ...more });
}

export interface ValueMark {
  readonly isBuilt: (value: unknown) => boolean;
  readonly hint: string;
}

/** Schema keyword that holds the supported values; not a Kubernetes keyword. */
const VALUES = "patchbayValues";

/** Returns keywords for a field of which only some values are supported. A VM with another value is stored but not started. */
export function onlyBuilt(isBuilt: ValueMark["isBuilt"], hint: string): JsonSchema {
  const mark: ValueMark = { isBuilt, hint };
  return { [VALUES]: mark };
}

export function findValueMark(schema: JsonSchema): ValueMark | undefined {
  // Only onlyBuilt writes this keyword.
  return schema[VALUES] as ValueMark | undefined;
}

export function findMark(schema: JsonSchema): FieldMark | undefined {
  // Only harmless and unbuilt write this keyword.
  return schema[MARK] as FieldMark | undefined;
}

export function isUnset(value: unknown): boolean {
  return value === undefined || value === null || (Array.isArray(value) && value.length === 0);
}

export function oneOf(...values: readonly unknown[]): (value: unknown) => boolean {
  return (value) => values.includes(value);
}

/** Source: KubeVirt FeatureState. */
export function isOff(value: unknown): boolean {
  return (value as { readonly enabled?: unknown } | undefined)?.enabled === false;
}

/** An empty feature is on. Source: KubeVirt FeatureState. */
export function isOn(value: unknown): boolean {
  return !isOff(value);
}

export function text(description: string): JsonSchema {
  return { type: "string", description };
}

export function flag(description: string): JsonSchema {
  return { type: "boolean", description };
}

export function integer(description: string): JsonSchema {
  return { type: "integer", description };
}

/** Schema keyword that marks quantities; not a Kubernetes keyword. */
const AMOUNT = "patchbayAmount";

/** A string or a number, for example `128Mi`. Source: Kubernetes resource.Quantity. */
export function quantity(description: string): JsonSchema {
  return { description, "x-kubernetes-int-or-string": true, [AMOUNT]: true };
}

export function isQuantity(schema: JsonSchema): boolean {
  return schema[AMOUNT] === true;
}

/** Unknown properties are pruned, as in every structural schema. */
export function object(
  description: string,
  properties: Readonly<Record<string, JsonSchema>> = {},
  required: readonly string[] = [],
): JsonSchema {
  return {
    type: "object",
    description,
    properties,
    ...(required.length === 0 ? {} : { required }),
  };
}

export function list(description: string, items: JsonSchema): JsonSchema {
  return { type: "array", description, items };
}

export function map(description: string, values: JsonSchema): JsonSchema {
  return { type: "object", description, additionalProperties: values };
}

/** An object of Kubernetes that is passed through unchecked. */
export function anything(description: string): JsonSchema {
  return { type: "object", description, "x-kubernetes-preserve-unknown-fields": true };
}

/** A feature that is on if it is present. Source: KubeVirt FeatureState. */
export function feature(
  description: string,
  more: Readonly<Record<string, JsonSchema>> = {},
): JsonSchema {
  return object(description, { enabled: flag("Whether it is on; true when absent."), ...more });
}

/** Source: Kubernetes LocalObjectReference. */
export function reference(description: string): JsonSchema {
  return object(description, { name: text("Name of the object, in the VM's namespace.") });
}
