// SPDX-License-Identifier: Apache-2.0
// How fields are written down that Patchbay knows and does not act on, and in which list each of them is.
import type { TOptional, TUnsafe } from "typebox";
import { Type } from "./schema.ts";

/** A schema as the CRDs hold it, keyword by keyword; nothing is known of its keywords. */
export type JsonSchema = Readonly<Record<string, unknown>>;

/**
 * What becomes of a field: it is acted on; it changes nothing for the guest and is kept, with a warning; or the guest
 * would be another without it, so that the VM is kept and not started.
 */
export type FieldList = "acted" | "harmless" | "unbuilt";

/** What is known of a field beside its schema. */
export interface FieldMark {
  readonly list: Exclude<FieldList, "acted">;
  /** A value with which the field asks for nothing but what is so anyway. */
  readonly unless?: (value: unknown) => boolean;
  /** What to do instead, for people. */
  readonly hint?: string;
}

/** Where a schema carries its mark; no keyword of Kubernetes, so that it stays out of the CRDs. */
const MARK = "patchbayField";

/** A field whose value no code can read: whoever builds it gives it a type first. */
type UnreadField = TOptional<TUnsafe>;

function marked(schema: JsonSchema, mark: FieldMark): UnreadField {
  return Type.Optional(Type.Unsafe<unknown>({ ...schema, [MARK]: mark }));
}

/** A field that changes nothing for the guest. */
export function harmless(schema: JsonSchema): UnreadField {
  return marked(schema, { list: "harmless" });
}

/** A field without which the guest would be another: not built yet. */
export function unbuilt(schema: JsonSchema, more: Omit<FieldMark, "list"> = {}): UnreadField {
  return marked(schema, { list: "unbuilt", ...more });
}

/** Which values of a field that is acted on are built, and what to do instead of the others. */
export interface ValueMark {
  readonly isBuilt: (value: unknown) => boolean;
  /** For people. */
  readonly hint: string;
}

/** Where a schema carries the values that are built; no keyword of Kubernetes. */
const VALUES = "patchbayValues";

/** Keywords for a field of which not every value is built: with another the VM is kept and not started. */
export function onlyBuilt(isBuilt: ValueMark["isBuilt"], hint: string): JsonSchema {
  const mark: ValueMark = { isBuilt, hint };
  return { [VALUES]: mark };
}

/** Which values of a schema are built; undefined: all that it takes. */
export function findValueMark(schema: JsonSchema): ValueMark | undefined {
  // Nothing else writes this member.
  return schema[VALUES] as ValueMark | undefined;
}

/** The mark of a schema; undefined where it has none of its own. */
export function findMark(schema: JsonSchema): FieldMark | undefined {
  // Nothing else writes this member.
  return schema[MARK] as FieldMark | undefined;
}

/** A value that asks for nothing, whatever the field. */
export function isNothing(value: unknown): boolean {
  return value === undefined || value === null || (Array.isArray(value) && value.length === 0);
}

/** For `unless`: the field has one of these values. */
export function oneOf(...values: readonly unknown[]): (value: unknown) => boolean {
  return (value) => values.includes(value);
}

/** For `unless`: a feature that is switched off. Source: KubeVirt FeatureState. */
export function isOff(value: unknown): boolean {
  return (value as { readonly enabled?: unknown } | undefined)?.enabled === false;
}

/** For `unless`: a feature that is on. An empty one is on. Source: KubeVirt FeatureState. */
export function isOn(value: unknown): boolean {
  return !isOff(value);
}

/** Any text; what may stand in it is not judged. */
export function text(description: string): JsonSchema {
  return { type: "string", description };
}

/** True or false; absent means false unless the description says otherwise. */
export function flag(description: string): JsonSchema {
  return { type: "boolean", description };
}

/** A whole number of any size. */
export function integer(description: string): JsonSchema {
  return { type: "integer", description };
}

/** Where a schema says that its values are amounts; no keyword of Kubernetes. */
const AMOUNT = "patchbayAmount";

/** An amount as text or number, for example `128Mi`. Source: Kubernetes resource.Quantity. */
export function quantity(description: string): JsonSchema {
  return { description, "x-kubernetes-int-or-string": true, [AMOUNT]: true };
}

/** Whether the values of a schema are amounts. */
export function isQuantity(schema: JsonSchema): boolean {
  return schema[AMOUNT] === true;
}

/** An object with these properties; unknown ones are pruned, as in every structural schema. */
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

/** A list whose items are all alike; order is kept. */
export function list(description: string, items: JsonSchema): JsonSchema {
  return { type: "array", description, items };
}

/** An object of any keys, whose values are all alike. */
export function map(description: string, values: JsonSchema): JsonSchema {
  return { type: "object", description, additionalProperties: values };
}

/** An object of Kubernetes' own that is not looked into. */
export function anything(description: string): JsonSchema {
  return { type: "object", description, "x-kubernetes-preserve-unknown-fields": true };
}

/** A feature that is on when it is named. Source: KubeVirt FeatureState. */
export function feature(
  description: string,
  more: Readonly<Record<string, JsonSchema>> = {},
): JsonSchema {
  return object(description, { enabled: flag("Whether it is on; true when absent."), ...more });
}

/** A name in the same namespace. Source: Kubernetes LocalObjectReference. */
export function reference(description: string): JsonSchema {
  return object(description, { name: text("Name of the object, in the VM's namespace.") });
}
