// SPDX-License-Identifier: Apache-2.0
// Builders for schemas, with marks on fields and values that Patchbay does not support.
import type { TOptional, TUnsafe } from "typebox";
import { Type } from "./schema.ts";

export type JsonSchema = Readonly<Record<string, unknown>>;

/**
 * How Patchbay treats a field: `acted` is implemented; `harmless` is stored with a warning, because the guest does not
 * depend on it; `unbuilt` is not supported, so a VM that sets it is stored but not started.
 */
export type SupportLevel = "acted" | "harmless" | "unbuilt";

export interface FieldMark {
  readonly level: Exclude<SupportLevel, "acted">;
  /** Checks for values that match the default behavior, which need no mark. */
  readonly isDefault?: (value: unknown) => boolean;
  readonly hint?: string;
}

/** Schema keyword that holds the mark. It is omitted from the CRDs, because it is not a Kubernetes keyword. */
const MARK_KEYWORD = "patchbayField";

/** Schema of an unsupported field. It is untyped, so that no code reads the field before it is implemented. */
type UnreadField = TOptional<TUnsafe>;

function withMark(schema: JsonSchema, mark: FieldMark): UnreadField {
  return Type.Optional(Type.Unsafe<unknown>({ ...schema, [MARK_KEYWORD]: mark }));
}

export function harmless(schema: JsonSchema): UnreadField {
  return withMark(schema, { level: "harmless" });
}

export function unbuilt(schema: JsonSchema, more: Omit<FieldMark, "level"> = {}): UnreadField {
  return withMark(schema, { level: "unbuilt", ...more });
}

export interface ValueMark {
  readonly isSupported: (value: unknown) => boolean;
  readonly hint: string;
}

/** Schema keyword that holds the supported values. It is omitted from the CRDs. */
const VALUES_KEYWORD = "patchbayValues";

/**
 * Returns keywords for a field of which only some values are supported. A VM with another value is stored but not
 * started.
 */
export function supportedValues(isSupported: ValueMark["isSupported"], hint: string): JsonSchema {
  const mark: ValueMark = { isSupported, hint };
  return { [VALUES_KEYWORD]: mark };
}

export function findValueMark(schema: JsonSchema): ValueMark | undefined {
  return schema[VALUES_KEYWORD] as ValueMark | undefined;
}

export function findMark(schema: JsonSchema): FieldMark | undefined {
  return schema[MARK_KEYWORD] as FieldMark | undefined;
}

export function isUnset(value: unknown): boolean {
  return value === undefined || value === null || (Array.isArray(value) && value.length === 0);
}

export function oneOf(...values: readonly unknown[]): (value: unknown) => boolean {
  return (value) => values.includes(value);
}

/** Checks whether a feature is disabled explicitly. Source: KubeVirt FeatureState. */
export function isFeatureOff(value: unknown): boolean {
  return (value as { readonly enabled?: unknown } | undefined)?.enabled === false;
}

/** Checks whether a feature is enabled, as is one without `enabled`. Source: KubeVirt FeatureState. */
export function isFeatureOn(value: unknown): boolean {
  return !isFeatureOff(value);
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

/** Schema keyword that marks quantities. It is omitted from the CRDs. */
const QUANTITY_KEYWORD = "patchbayAmount";

/** Builds the schema of a quantity, a string or a number, for example `128Mi`. Source: Kubernetes resource.Quantity. */
export function quantity(description: string): JsonSchema {
  return { description, "x-kubernetes-int-or-string": true, [QUANTITY_KEYWORD]: true };
}

export function isQuantity(schema: JsonSchema): boolean {
  return schema[QUANTITY_KEYWORD] === true;
}

/** Builds the schema of an object. Unknown properties are pruned, as in every structural schema. */
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

/** Builds the schema of a Kubernetes object that is passed on unchecked. */
export function anything(description: string): JsonSchema {
  return { type: "object", description, "x-kubernetes-preserve-unknown-fields": true };
}

/** Builds the schema of a feature that is on if it is present. Source: KubeVirt FeatureState. */
export function feature(
  description: string,
  more: Readonly<Record<string, JsonSchema>> = {},
): JsonSchema {
  return object(description, { enabled: flag("Whether it is on; true when absent."), ...more });
}

/** Builds the schema of a reference to an object. Source: Kubernetes LocalObjectReference. */
export function reference(description: string): JsonSchema {
  return object(description, { name: text("Name of the object, in the VM's namespace.") });
}
