// SPDX-License-Identifier: Apache-2.0
// Schema builders, and marks for fields and values that Patchbay does not support.
import type { TOptional, TUnsafe } from "typebox";
import { Type } from "./schema.ts";

export type JsonSchema = Readonly<Record<string, unknown>>;

/**
 * Support for a field. `acted`: Patchbay implements the field. `harmless`: Patchbay stores the field with a warning. `unbuilt`: Patchbay
 * stores a VM with the field, but does not start the VM.
 */
export type SupportLevel = "acted" | "harmless" | "unbuilt";

export interface FieldMark {
  readonly level: Exclude<SupportLevel, "acted">;
  /** Returns true for the default value, which Patchbay accepts without warning. */
  readonly isDefault?: (value: unknown) => boolean;
  readonly hint?: string;
}

/** Schema keyword that marks a field as unsupported. CRDs omit the keyword. */
const MARK_KEYWORD = "patchbayField";

/** Schema of an unsupported field. Its value has type `unknown`, so that no code reads the field by mistake. */
type UnreadField = TOptional<TUnsafe>;

function withMark(schema: JsonSchema, mark: FieldMark): UnreadField {
  return Type.Optional(Type.Unsafe<unknown>({ ...schema, [MARK_KEYWORD]: mark }));
}

export function harmless(schema: JsonSchema): UnreadField {
  return withMark(schema, { level: "harmless" });
}

export function unbuilt(schema: JsonSchema, options: Omit<FieldMark, "level"> = {}): UnreadField {
  return withMark(schema, { level: "unbuilt", ...options });
}

export interface ValueMark {
  readonly isSupported: (value: unknown) => boolean;
  readonly hint: string;
}

/** Schema keyword with a check that decides whether Patchbay supports a field's value. CRDs omit the keyword. */
const VALUES_KEYWORD = "patchbayValues";

/** Builds the schema keyword of a partly supported field. A VM with an unsupported value is stored, but does not start. */
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

/** Checks whether a feature is enabled. `enabled` defaults to true. Source: KubeVirt FeatureState. */
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

/** Schema keyword for quantities. CRDs omit the keyword. */
const QUANTITY_KEYWORD = "patchbayAmount";

/** Builds the schema of a quantity, which is a string or a number, for example `128Mi`. Source: Kubernetes resource.Quantity. */
export function quantity(description: string): JsonSchema {
  return { description, "x-kubernetes-int-or-string": true, [QUANTITY_KEYWORD]: true };
}

export function isQuantity(schema: JsonSchema): boolean {
  return schema[QUANTITY_KEYWORD] === true;
}

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

export function anything(description: string): JsonSchema {
  return { type: "object", description, "x-kubernetes-preserve-unknown-fields": true };
}

/** Builds the schema of a feature, which is enabled unless `enabled` is false. Source: KubeVirt FeatureState. */
export function feature(
  description: string,
  properties: Readonly<Record<string, JsonSchema>> = {},
): JsonSchema {
  return object(description, {
    enabled: flag("Whether it is on; true when absent."),
    ...properties,
  });
}

/** Source: Kubernetes LocalObjectReference. */
export function reference(description: string): JsonSchema {
  return object(description, { name: text("Name of the object, in the VM's namespace.") });
}
