// SPDX-License-Identifier: Apache-2.0
// From Kubernetes' protobuf to JSON: typed clients (kubectl from 1.32 on) send built-in kinds so.
import { type Fields, fieldsOf, listOf } from "../objects/json.ts";
import { rfc3339 } from "../objects/time.ts";
import type { Field, FieldType, Message } from "./fields.ts";
import { MESSAGES } from "./messages.ts";

/** Every body begins so. Source: Kubernetes runtime/serializer/protobuf. */
const MAGIC = Buffer.from("k8s\0");

const TYPE_META: Message = {
  1: { name: "apiVersion", type: "text" },
  2: { name: "kind", type: "text" },
};

/** A field as it stands in the text: a number, or bytes. */
interface WireField {
  readonly number: number;
  readonly value: bigint | Buffer;
}

function readVarint(
  bytes: Buffer,
  from: number,
): { readonly value: bigint; readonly next: number } {
  let value = 0n;
  for (let at = from, shift = 0n; at < bytes.length && shift < 70n; at += 1, shift += 7n) {
    const byte = bytes[at] ?? 0;
    value |= BigInt(byte & 0x7f) << shift;
    if (byte < 0x80) {
      return { value, next: at + 1 };
    }
  }
  throw new SyntaxError("protobuf: a number does not end");
}

const FIXED_BYTES: Readonly<Record<number, number>> = { 1: 8, 5: 4 };

function readFields(bytes: Buffer): WireField[] {
  const fields: WireField[] = [];
  let at = 0;
  while (at < bytes.length) {
    const { value: tag, next } = readVarint(bytes, at);
    const wire = Number(tag & 7n);
    const number = Number(tag >> 3n);
    if (wire === 0) {
      const read = readVarint(bytes, next);
      fields.push({ number, value: read.value });
      at = read.next;
      continue;
    }
    const length =
      wire === 2 ? readVarint(bytes, next) : { value: BigInt(FIXED_BYTES[wire] ?? -1), next };
    const end = length.next + Number(length.value);
    if (length.value < 0n || end > bytes.length) {
      throw new SyntaxError("protobuf: a field does not end");
    }
    fields.push({ number, value: bytes.subarray(length.next, end) });
    at = end;
  }
  return fields;
}

function bytesOf(value: bigint | Buffer): Buffer {
  return typeof value === "bigint" ? Buffer.alloc(0) : value;
}

function integerOf(value: bigint | Buffer | undefined): number {
  return typeof value === "bigint" ? Number(BigInt.asIntN(64, value)) : 0;
}

/** Seconds and nanoseconds; undefined for the zero time. */
function timeOf(value: bigint | Buffer, micro: boolean): string | undefined {
  const parts = new Map(readFields(bytesOf(value)).map((field) => [field.number, field.value]));
  if (parts.size === 0) {
    return undefined;
  }
  const text = rfc3339(integerOf(parts.get(1)) * 1000);
  const micros = String(Math.floor(integerOf(parts.get(2)) / 1000)).padStart(6, "0");
  return micro ? text.replace("Z", `.${micros}Z`) : text;
}

function integerOrText(value: bigint | Buffer): number | string {
  const parts = new Map(readFields(bytesOf(value)).map((field) => [field.number, field.value]));
  return integerOf(parts.get(1)) === 1
    ? bytesOf(parts.get(3) ?? 0n).toString("utf8")
    : integerOf(parts.get(2));
}

/** A quantity is a message with its text. */
function quantityOf(value: bigint | Buffer): string {
  const parts = new Map(readFields(bytesOf(value)).map((field) => [field.number, field.value]));
  return bytesOf(parts.get(1) ?? 0n).toString("utf8");
}

const SIMPLE = {
  text: (value: bigint | Buffer) => bytesOf(value).toString("utf8"),
  bytes: (value: bigint | Buffer) => bytesOf(value).toString("base64"),
  integer: integerOf,
  count: (value: bigint | Buffer) => integerOf(value) || undefined,
  flag: (value: bigint | Buffer) => integerOf(value) !== 0 || undefined,
  boolean: (value: bigint | Buffer) => integerOf(value) !== 0,
  time: (value: bigint | Buffer) => timeOf(value, false),
  microTime: (value: bigint | Buffer) => timeOf(value, true),
  integerOrText,
  quantity: quantityOf,
  ignored: () => undefined,
} as const;

function readValue(value: bigint | Buffer, type: FieldType): unknown {
  return typeof type === "string"
    ? SIMPLE[type](value)
    : readMessage(bytesOf(value), MESSAGES[type.message] ?? {});
}

function readEntry(value: bigint | Buffer, type: FieldType): Fields {
  const parts = new Map(readFields(bytesOf(value)).map((field) => [field.number, field.value]));
  const key = bytesOf(parts.get(1) ?? 0n).toString("utf8");
  return { [key]: readValue(parts.get(2) ?? Buffer.alloc(0), type) };
}

/** What a field holds once one more value of it was read. */
function joined(before: unknown, value: bigint | Buffer, field: Field): unknown {
  if (field.many === undefined) {
    return readValue(value, field.type);
  }
  return field.many === "list"
    ? [...listOf(before), readValue(value, field.type)]
    : { ...fieldsOf(before), ...readEntry(value, field.type) };
}

/** An empty text is an absent one: Go writes both alike. */
function isAbsent(value: unknown): boolean {
  return value === undefined || value === "";
}

/** A body with a field that is in no table; it must not be lost in silence. */
class UnknownFieldError extends Error {
  override readonly name = "UnknownFieldError";
}

/** Go writes fields that are no pointers also when there is nothing in them. */
function checkEmpty(value: bigint | Buffer): void {
  const empty = typeof value === "bigint" ? value === 0n : value.length === 0;
  if (!empty) {
    throw new UnknownFieldError();
  }
}

function readMessage(bytes: Buffer, message: Message): Fields {
  const result: Fields = {};
  for (const { number, value } of readFields(bytes)) {
    const field = message[number];
    if (field === undefined) {
      checkEmpty(value);
    } else if (field.type !== "ignored") {
      const read = joined(result[field.name], value, field);
      if (!isAbsent(read)) {
        result[field.name] = read;
      }
    }
  }
  return result;
}

/**
 * The object in a body; undefined where its kind, or something in it, is not known in this form.
 * Throws SyntaxError where the body is damaged.
 */
export function decodeProtobuf(body: Buffer): Fields | undefined {
  try {
    return decodeEnvelope(body);
  } catch (error) {
    if (error instanceof UnknownFieldError) {
      return undefined;
    }
    throw error;
  }
}

function decodeEnvelope(body: Buffer): Fields | undefined {
  if (!body.subarray(0, MAGIC.length).equals(MAGIC)) {
    throw new SyntaxError("protobuf: the body does not begin as it must");
  }
  const envelope = new Map(
    readFields(body.subarray(MAGIC.length)).map((field) => [field.number, field.value]),
  );
  const typeMeta = readMessage(bytesOf(envelope.get(1) ?? 0n), TYPE_META);
  const kind = typeof typeMeta["kind"] === "string" ? typeMeta["kind"] : "";
  const message = Object.hasOwn(MESSAGES, kind) ? MESSAGES[kind] : undefined;
  return message === undefined
    ? undefined
    : { ...typeMeta, ...readMessage(bytesOf(envelope.get(2) ?? 0n), message) };
}
