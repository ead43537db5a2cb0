// SPDX-License-Identifier: Apache-2.0
// Reads an object of a built-in kind as a typed server does: known fields in their canonical form, the others by name.
import { type Fields, isFields, setField } from "../objects/json.ts";
import { READERS, wrongType } from "./scalar.ts";
import type { ObjectShape, Scalar, Shape } from "./shape.ts";

/** Where a value stands, in Go's words and in people's. */
interface Place {
  /** For example `PodSpec.spec.containers`: the struct that has the field, and the way to it. */
  readonly field: string;
  /** For example `spec.containers`. */
  readonly way: string;
  /** For example `spec.containers[0]`. */
  readonly path: string;
  /** Paths of fields that nobody knows; grows. */
  readonly unknown: string[];
}

const GO_SCALARS: Readonly<Record<Scalar, string>> = {
  any: "runtime.RawExtension",
  string: "string",
  boolean: "bool",
  int32: "int32",
  int64: "int64",
  double: "float64",
  bytes: "[]uint8",
  time: "v1.Time",
  "micro-time": "v1.MicroTime",
  "int-or-string": "intstr.IntOrString",
  quantity: "resource.Quantity",
};

function goType(shape: Shape): string {
  switch (shape.type) {
    case "scalar":
      return GO_SCALARS[shape.scalar];
    case "list":
      return `[]${goType(shape.of)}`;
    case "map":
      return `map[string]${goType(shape.of)}`;
    case "object":
      return shape.name.slice(shape.name.indexOf(".") + 1);
  }
}

/** What Go makes of null inside lists and maps. */
function zeroOf(shape: Shape): unknown {
  switch (shape.type) {
    case "scalar":
      return shape.scalar === "string" ? "" : null;
    case "list":
      return [];
    case "map":
    case "object":
      return {};
  }
}

function readItem(value: unknown, shape: Shape, place: Place): unknown {
  return value === null ? zeroOf(shape) : readShape(value, shape, place);
}

function readObject(value: Fields, shape: ObjectShape, place: Place): Fields {
  const struct = shape.name.slice(shape.name.lastIndexOf(".") + 1);
  const result: Fields = {};
  for (const [key, field] of Object.entries(value)) {
    const known = shape.fields.get(key);
    const path = place.path === "" ? key : `${place.path}.${key}`;
    if (known === undefined) {
      place.unknown.push(path);
    } else if (field !== null && field !== undefined) {
      const way = place.way === "" ? key : `${place.way}.${key}`;
      const below = { field: `${struct}.${way}`, way, path, unknown: place.unknown };
      result[key] = readShape(field, known.shape, below);
    }
  }
  return result;
}

function readMap(value: Fields, of: Shape, place: Place): Fields {
  const read: Fields = {};
  for (const [key, item] of Object.entries(value)) {
    // Only in objects is there a place to name: maps of texts can be long.
    const below = of.type === "scalar" ? place : { ...place, path: `${place.path}.${key}` };
    setField(read, key, readItem(item, of, below));
  }
  return read;
}

function readList(value: readonly unknown[], of: Shape, place: Place): unknown[] {
  return value.map((item, index) =>
    readItem(item, of, { ...place, path: `${place.path}[${String(index)}]` }),
  );
}

function readShape(value: unknown, shape: Shape, place: Place): unknown {
  if (shape.type === "scalar") {
    return READERS[shape.scalar](value, place.field);
  }
  if (shape.type === "list" && Array.isArray(value)) {
    return readList(value, shape.of, place);
  }
  if (shape.type === "list" || !isFields(value)) {
    throw wrongType(value, place.field, goType(shape));
  }
  return shape.type === "object"
    ? readObject(value, shape, place)
    : readMap(value, shape.of, place);
}

/** What was read, and the paths of fields that are not known and were dropped. */
export interface Read {
  readonly fields: Fields;
  readonly unknown: readonly string[];
}

/** Reads `value` as `shape`; `at` is where it stands for people, empty for a whole object. Throws DecodeErrors. */
export function decodeShape(value: Fields, shape: ObjectShape, at = ""): Read {
  const unknown: string[] = [];
  const fields = readObject(value, shape, { field: "", way: "", path: at, unknown });
  return { fields, unknown };
}
