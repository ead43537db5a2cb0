// SPDX-License-Identifier: Apache-2.0
// Types of the fields of built-in kinds, from shapes.json. A type is parsed on first use.
import SHAPES from "./shapes.json" with { type: "json" };

export type Scalar =
  | "string"
  | "int32"
  | "int64"
  | "double"
  | "boolean"
  /** Binary data in base64. */
  | "bytes"
  /** Time in RFC 3339 with seconds. */
  | "time"
  /** Time in RFC 3339 with microseconds. */
  | "micro-time"
  | "int-or-string"
  | "quantity"
  | "any";

/** Treatment of a field in a strategic merge patch. Source: Kubernetes patchStrategy tags. */
export interface FieldMerge {
  /** Patch strategy, for example `merge,retainKeys`. */
  readonly strategy: string;
  readonly key?: string;
}

export interface FieldShape {
  readonly shape: Shape;
  readonly required: boolean;
  readonly merge?: FieldMerge;
}

/** Type of an object. `name` is `<package>.<version>.<type>`. */
export interface ObjectShape {
  readonly type: "object";
  readonly name: string;
  readonly fields: ReadonlyMap<string, FieldShape>;
}

export type Shape =
  | { readonly type: "scalar"; readonly scalar: Scalar }
  | { readonly type: "list" | "map"; readonly items: Shape }
  | ObjectShape;

const TYPES: Readonly<Record<string, Readonly<Record<string, string>>>> = SHAPES.types;
const KINDS: Readonly<Record<string, string>> = SHAPES.kinds;

const shapesByType = new Map<string, ObjectShape>();
const shapesByNotation = new Map<string, Shape>();

function parseShape(notation: string): Shape {
  if (notation.includes(".") && /^\w/.test(notation)) {
    return typeShape(notation);
  }
  const cachedShape = shapesByNotation.get(notation);
  if (cachedShape !== undefined) {
    return cachedShape;
  }
  const prefix = notation.slice(0, 2);
  const parsedShape: Shape =
    prefix === "[]" || prefix === "{}"
      ? { type: prefix === "[]" ? "list" : "map", items: parseShape(notation.slice(2)) }
      : // All other notations in shapes.json are names of scalars.
        { type: "scalar", scalar: notation as Scalar };
  shapesByNotation.set(notation, parsedShape);
  return parsedShape;
}

function parseMerge(notation: string): FieldMerge {
  const [strategy = "", key] = notation.split("=");
  return key === undefined ? { strategy } : { strategy, key };
}

function parseField(text: string): FieldShape {
  const [notation = "", merge] = text.replace("!", "").split(" ");
  return {
    shape: parseShape(notation),
    required: text.startsWith("!"),
    ...(merge === undefined ? {} : { merge: parseMerge(merge) }),
  };
}

function readType(name: string): ObjectShape {
  let fields: ReadonlyMap<string, FieldShape> | undefined;
  return {
    type: "object",
    name,
    get fields() {
      // Parses the fields on first use, because types refer to each other in cycles.
      fields ??= new Map(
        Object.entries(TYPES[name] ?? {}).map(([field, text]) => [field, parseField(text)]),
      );
      return fields;
    },
  };
}

export function typeShape(name: string): ObjectShape {
  const shape = shapesByType.get(name) ?? readType(name);
  shapesByType.set(name, shape);
  return shape;
}

export function kindShape(apiVersion: string, kind: string): ObjectShape | undefined {
  const name = KINDS[`${apiVersion}/${kind}`];
  return name === undefined ? undefined : typeShape(name);
}

export interface GroupVersionKind {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
}

function toGroupVersionKind(key: string): GroupVersionKind {
  const parts = key.split("/");
  const [kind = "", version = "", group = ""] = parts.reverse();
  return { group, version, kind };
}

const KINDS_BY_TYPE: ReadonlyMap<string, GroupVersionKind> = new Map(
  Object.entries(KINDS).map(([key, name]) => [name, toGroupVersionKind(key)]),
);

/** Returns the kind whose objects have the type, or undefined for a nested type. */
export function findKindByType(name: string): GroupVersionKind | undefined {
  return KINDS_BY_TYPE.get(name);
}

export const OBJECT_META: ObjectShape = typeShape("meta.v1.ObjectMeta");
export const LIST_META: ObjectShape = typeShape("meta.v1.ListMeta");
