// SPDX-License-Identifier: Apache-2.0
import { type Fields, isFields, setField } from "../objects/json.ts";
import { READERS, wrongType } from "./scalar.ts";
import type { ObjectShape, Scalar, Shape } from "./shape.ts";

interface DecodeContext {
  /** Field as Go's error messages name it: struct, then path from the root, for example `PodSpec.spec.containers`. */
  readonly field: string;
  /** Path without indexes, for example `spec.containers`. */
  readonly fieldPath: string;
  /** Path with indexes, for example `spec.containers[0]`. */
  readonly path: string;
  readonly unknownPaths: string[];
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
      return `[]${goType(shape.items)}`;
    case "map":
      return `map[string]${goType(shape.items)}`;
    case "object":
      return shape.name.slice(shape.name.indexOf(".") + 1);
  }
}

/** Returns the value that replaces null in lists and maps: Go's zero value for strings, lists, maps and objects; otherwise null. */
function zeroValue(shape: Shape): unknown {
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

function readItem(value: unknown, shape: Shape, context: DecodeContext): unknown {
  return value === null ? zeroValue(shape) : readShape(value, shape, context);
}

function readObject(value: Fields, shape: ObjectShape, context: DecodeContext): Fields {
  const struct = shape.name.slice(shape.name.lastIndexOf(".") + 1);
  const result: Fields = {};
  for (const [key, field] of Object.entries(value)) {
    const fieldShape = shape.fields.get(key);
    const path = context.path === "" ? key : `${context.path}.${key}`;
    if (fieldShape === undefined) {
      context.unknownPaths.push(path);
    } else if (field !== null && field !== undefined) {
      const fieldPath = context.fieldPath === "" ? key : `${context.fieldPath}.${key}`;
      const childContext = {
        field: `${struct}.${fieldPath}`,
        fieldPath,
        path,
        unknownPaths: context.unknownPaths,
      };
      result[key] = readShape(field, fieldShape.shape, childContext);
    }
  }
  return result;
}

function readMap(value: Fields, itemShape: Shape, context: DecodeContext): Fields {
  const result: Fields = {};
  for (const [key, item] of Object.entries(value)) {
    // Scalars need no path. Omitting the paths of scalars saves time in long maps.
    const childContext =
      itemShape.type === "scalar" ? context : { ...context, path: `${context.path}.${key}` };
    setField(result, key, readItem(item, itemShape, childContext));
  }
  return result;
}

function readList(value: readonly unknown[], itemShape: Shape, context: DecodeContext): unknown[] {
  return value.map((item, index) =>
    readItem(item, itemShape, { ...context, path: `${context.path}[${String(index)}]` }),
  );
}

function readShape(value: unknown, shape: Shape, context: DecodeContext): unknown {
  if (shape.type === "scalar") {
    return READERS[shape.scalar](value, context.field);
  }
  if (shape.type === "list" && Array.isArray(value)) {
    return readList(value, shape.items, context);
  }
  if (shape.type === "list" || !isFields(value)) {
    throw wrongType(value, context.field, goType(shape));
  }
  return shape.type === "object"
    ? readObject(value, shape, context)
    : readMap(value, shape.items, context);
}

/** A decoded object. `unknownPaths` are the paths of dropped fields. */
export interface DecodedShape {
  readonly fields: Fields;
  readonly unknownPaths: readonly string[];
}

/** Decodes a value. `basePath` is its path, or empty for a whole object. @throws DecodeError */
export function decodeShape(value: Fields, shape: ObjectShape, basePath = ""): DecodedShape {
  const unknownPaths: string[] = [];
  const fields = readObject(value, shape, {
    field: "",
    fieldPath: "",
    path: basePath,
    unknownPaths,
  });
  return { fields, unknownPaths };
}
