// SPDX-License-Identifier: Apache-2.0
// The OpenAPI v2 document as protobuf, which kubectl up to 1.26 requests. Source: google/gnostic
// openapiv2/OpenAPIv2.proto (field numbers).
import { type Fields, asText, asFields, isFields, asList, printJson } from "../objects/json.ts";

const LENGTH_DELIMITED = 2;
const VARINT_BASE = 0x80;

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let remaining = value;
  while (remaining >= VARINT_BASE) {
    bytes.push((remaining % VARINT_BASE) + VARINT_BASE);
    remaining = Math.floor(remaining / VARINT_BASE);
  }
  return Buffer.from([...bytes, remaining]);
}

/** Encodes a message. Includes the field even if the message is empty, because an empty schema differs from a missing one. */
function message(field: number, ...parts: readonly Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  return Buffer.concat([varint(field * 8 + LENGTH_DELIMITED), varint(content.length), content]);
}

function text(field: number, value: unknown): Buffer {
  return typeof value === "string" && value !== ""
    ? message(field, Buffer.from(value))
    : Buffer.alloc(0);
}

/** Encodes message Any. Its field `yaml` contains the value as JSON, which is valid YAML. */
function anyValue(field: number, value: unknown): Buffer {
  return message(field, text(2, printJson(value)));
}

function extensions(field: number, members: Fields): Buffer {
  const extensionEntries = Object.entries(members).filter(([key]) => key.startsWith("x-"));
  return Buffer.concat(
    extensionEntries.map(([key, value]) => message(field, text(1, key), anyValue(2, value))),
  );
}

function namedSchemas(properties: Fields): Buffer[] {
  return Object.entries(properties).map(([name, schema]) =>
    message(1, text(1, name), message(2, ...schemaParts(asFields(schema)))),
  );
}

function additionalProperties(value: unknown): Buffer {
  return isFields(value) ? message(21, message(1, ...schemaParts(value))) : Buffer.alloc(0);
}

function schemaParts(schema: Fields): Buffer[] {
  const { items, properties } = schema;
  return [
    text(1, schema["$ref"]),
    text(2, schema["format"]),
    text(4, schema["description"]),
    text(13, schema["pattern"]),
    ...asList(schema["required"]).map((name) => text(19, name)),
    ...asList(schema["enum"]).map((value) => anyValue(20, value)),
    additionalProperties(schema["additionalProperties"]),
    ...(schema["type"] === undefined ? [] : [message(22, text(1, schema["type"]))]),
    ...(isFields(items) ? [message(23, message(1, ...schemaParts(items)))] : []),
    ...(isFields(properties) ? [message(25, ...namedSchemas(properties))] : []),
    extensions(31, schema),
  ];
}

function parameter(value: unknown): Buffer {
  const { name, type } = asFields(value);
  const query = message(3, text(2, "query"), text(4, name), text(6, type));
  return message(8, message(1, message(2, query)));
}

function responses(): Buffer {
  const response = message(1, text(1, "OK"));
  return message(9, message(1, text(1, "200"), message(2, response)));
}

const METHODS: Readonly<Record<string, number>> = { get: 2, put: 3, post: 4, delete: 5, patch: 8 };

function pathItem(item: Fields): Buffer[] {
  return Object.entries(item).map(([method, operation]) => {
    const { parameters } = asFields(operation);
    const parts = [
      ...asList(parameters).map(parameter),
      responses(),
      extensions(13, asFields(operation)),
    ];
    return message(METHODS[method] ?? 2, ...parts);
  });
}

export function toProtobuf(document: Fields): Buffer {
  const { info, paths, definitions } = document;
  const { title, version } = asFields(info);
  const printedPaths = Object.entries(asFields(paths)).map(([path, item]) =>
    message(2, text(1, path), message(2, ...pathItem(asFields(item)))),
  );
  return Buffer.concat([
    text(1, asText(document["swagger"])),
    message(2, text(1, title), text(2, version)),
    message(8, ...printedPaths),
    message(9, ...namedSchemas(asFields(definitions))),
  ]);
}
