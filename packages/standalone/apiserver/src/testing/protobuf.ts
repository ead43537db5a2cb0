// SPDX-License-Identifier: Apache-2.0
// Encoder for Kubernetes' protobuf, by the tables of the decoder.
import type { Field, FieldType } from "../protobuf/fields.ts";
import { MESSAGES } from "../protobuf/messages.ts";

type Values = Readonly<Record<string, unknown>>;

function encodeVarint(value: bigint): number[] {
  const bytes: number[] = [];
  let rest = BigInt.asUintN(64, value);
  while (rest >= 0x80n) {
    bytes.push(Number(rest & 0x7fn) | 0x80);
    rest >>= 7n;
  }
  return [...bytes, Number(rest)];
}

export function encodeNumber(number: number, value: number | bigint | boolean): Buffer {
  return Buffer.from([...encodeVarint(BigInt(number) << 3n), ...encodeVarint(BigInt(value))]);
}

export function encodeBytes(number: number, content: Buffer | string): Buffer {
  const bytes = Buffer.from(content);
  const tag = encodeVarint((BigInt(number) << 3n) | 2n);
  return Buffer.concat([Buffer.from([...tag, ...encodeVarint(BigInt(bytes.length))]), bytes]);
}

function encodeTime(text: string): Buffer {
  const micros = Number(/\.(\d{6})Z$/.exec(text)?.[1] ?? 0);
  const seconds = Math.floor(Date.parse(text) / 1000);
  return Buffer.concat([encodeNumber(1, seconds), encodeNumber(2, micros * 1000)]);
}

function encodeIntOrString(value: unknown): Buffer {
  return typeof value === "string"
    ? Buffer.concat([encodeNumber(1, 1), encodeBytes(3, value)])
    : Buffer.concat([encodeNumber(1, 0), encodeNumber(2, Number(value))]);
}

function encodeValue(number: number, type: FieldType, value: unknown): Buffer {
  if (typeof type !== "string") {
    return encodeBytes(number, encodeMessage(type.message, value as Values));
  }
  switch (type) {
    case "text":
      return encodeBytes(number, String(value));
    case "bytes":
      return encodeBytes(number, Buffer.from(String(value), "base64"));
    case "integer":
    case "count":
      return encodeNumber(number, Number(value));
    case "boolean":
    case "flag":
      return encodeNumber(number, value === true);
    case "time":
    case "microTime":
      return encodeBytes(number, encodeTime(String(value)));
    case "integerOrText":
      return encodeBytes(number, encodeIntOrString(value));
    case "quantity":
      return encodeBytes(number, encodeBytes(1, String(value)));
    case "ignored":
    case "empty":
      return Buffer.alloc(0);
  }
}

function encodeField(number: number, { type, collection }: Field, value: unknown): Buffer {
  if (collection === "list") {
    return Buffer.concat((value as unknown[]).map((item) => encodeValue(number, type, item)));
  }
  if (collection !== "map") return encodeValue(number, type, value);
  const entries = Object.entries(value as Values).map(([key, item]) =>
    encodeBytes(number, Buffer.concat([encodeBytes(1, key), encodeValue(2, type, item)])),
  );
  return Buffer.concat(entries);
}

export function encodeMessage(name: string, values: Values): Buffer {
  const fields = Object.entries(MESSAGES[name] ?? {}).flatMap(([number, field]) => {
    const value = field.collection === "inline" ? values : values[field.name];
    return value === undefined ? [] : [encodeField(Number(number), field, value)];
  });
  return Buffer.concat(fields);
}

/** Encodes an object of a kind. `more` is appended to its fields. */
export function encodeProtobuf(
  object: Values & { readonly apiVersion: string; readonly kind: string },
  more: Buffer = Buffer.alloc(0),
): Buffer {
  const { apiVersion, kind } = object;
  const typeMeta = Buffer.concat([encodeBytes(1, apiVersion), encodeBytes(2, kind)]);
  const raw = Buffer.concat([encodeMessage(kind, object), more]);
  return Buffer.concat([Buffer.from("k8s\0"), encodeBytes(1, typeMeta), encodeBytes(2, raw)]);
}
