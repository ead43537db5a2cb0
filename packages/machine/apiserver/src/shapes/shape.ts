// SPDX-License-Identifier: Apache-2.0
// What form do built-in kinds have? The facts are in shapes.json; each type is read when it is first needed.
import SHAPES from "./shapes.json" with { type: "json" };

/** Kinds of single values, as shapes.json names them. */
export type Scalar =
  | "string"
  | "int32"
  | "int64"
  | "double"
  | "boolean"
  /** Base64. */
  | "bytes"
  /** RFC 3339 with seconds. */
  | "time"
  /** RFC 3339 with microseconds. */
  | "micro-time"
  | "int-or-string"
  | "quantity"
  /** Whatever JSON has. */
  | "any";

/** How a strategic merge patch treats a field. Source: Kubernetes patchStrategy tags. */
export interface FieldMerge {
  /** For example `merge,retainKeys`. */
  readonly strategy: string;
  /** The field of items by which a list is merged. */
  readonly key?: string;
}

/** A field of an object. */
export interface FieldShape {
  readonly shape: Shape;
  readonly required: boolean;
  readonly merge?: FieldMerge;
}

/** An object with known fields; its name is `<package>.<version>.<type>`. */
export interface ObjectShape {
  readonly type: "object";
  readonly name: string;
  readonly fields: ReadonlyMap<string, FieldShape>;
}

/** The form of a value. */
export type Shape =
  | { readonly type: "scalar"; readonly scalar: Scalar }
  | { readonly type: "list" | "map"; readonly of: Shape }
  | ObjectShape;

const TYPES: Readonly<Record<string, Readonly<Record<string, string>>>> = SHAPES.types;
const KINDS: Readonly<Record<string, string>> = SHAPES.kinds;

const objects = new Map<string, ObjectShape>();
const others = new Map<string, Shape>();

function parseShape(words: string): Shape {
  if (words.includes(".") && /^\w/.test(words)) {
    return typeShape(words);
  }
  const known = others.get(words);
  if (known !== undefined) {
    return known;
  }
  const prefix = words.slice(0, 2);
  const parsed: Shape =
    prefix === "[]" || prefix === "{}"
      ? { type: prefix === "[]" ? "list" : "map", of: parseShape(words.slice(2)) }
      : // shapes.json has no other words; its generator knows the same list.
        { type: "scalar", scalar: words as Scalar };
  others.set(words, parsed);
  return parsed;
}

function parseMerge(words: string): FieldMerge {
  const [strategy = "", key] = words.split("=");
  return key === undefined ? { strategy } : { strategy, key };
}

function parseField(text: string): FieldShape {
  const [words = "", merge] = text.replace("!", "").split(" ");
  return {
    shape: parseShape(words),
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
      // Not before somebody looks: types refer to each other in circles.
      fields ??= new Map(
        Object.entries(TYPES[name] ?? {}).map(([field, text]) => [field, parseField(text)]),
      );
      return fields;
    },
  };
}

/** The form of a type by its name in shapes.json, for example `meta.v1.ObjectMeta`. */
export function typeShape(name: string): ObjectShape {
  const known = objects.get(name) ?? readType(name);
  objects.set(name, known);
  return known;
}

/** The form of a built-in kind; undefined where it has none. */
export function kindShape(apiVersion: string, kind: string): ObjectShape | undefined {
  const name = KINDS[`${apiVersion}/${kind}`];
  return name === undefined ? undefined : typeShape(name);
}

/** A kind and its group and version. */
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

/** The kind whose form a type is; undefined where it is a part of kinds only. */
export function kindOfType(name: string): GroupVersionKind | undefined {
  return KINDS_BY_TYPE.get(name);
}

/** Metadata of every object. */
export const OBJECT_META: ObjectShape = typeShape("meta.v1.ObjectMeta");
/** Metadata of every list. */
export const LIST_META: ObjectShape = typeShape("meta.v1.ListMeta");
