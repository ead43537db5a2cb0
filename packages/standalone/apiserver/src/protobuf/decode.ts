// SPDX-License-Identifier: Apache-2.0
// Decoder for Kubernetes' protobuf encoding, which kubectl since 1.32 uses for built-in kinds.
import { tooLarge } from "../meta/status.ts";
import { VALUES_MAX } from "../objects/extent.ts";
import { type Fields, setField } from "../objects/json.ts";
import { rfc3339 } from "../objects/time.ts";
import type { Field, FieldType, Message } from "./fields.ts";
import { MESSAGES } from "./messages.ts";

/** Maximum number of fields: three for each JSON value, because a map entry consists of a field, a key and a value. */
const FIELDS_MAX = 3 * VALUES_MAX;

/** Prefix of encoded bodies. Source: Kubernetes runtime/serializer/protobuf. */
const MAGIC = Buffer.from("k8s\0");

const TYPE_META_MESSAGE: Message = {
  1: { name: "apiVersion", type: "text" },
  2: { name: "kind", type: "text" },
};

/** Number of fields that may still be read. The depth needs no limit, because no message type contains itself. */
interface FieldBudget {
  remaining: number;
}

interface ReadContext {
  readonly field: Field;
  readonly budget: FieldBudget;
}

interface WireField {
  readonly number: number;
  readonly value: bigint | Buffer;
}

function readVarint(
  bytes: Buffer,
  start: number,
): { readonly value: bigint; readonly next: number } {
  let value = 0n;
  for (
    let position = start, shift = 0n;
    position < bytes.length && shift < 70n;
    position += 1, shift += 7n
  ) {
    const byte = bytes[position] ?? 0;
    value |= BigInt(byte & 0x7f) << shift;
    if (byte < 0x80) {
      return { value, next: position + 1 };
    }
  }
  throw new SyntaxError("protobuf: a varint is truncated");
}

const FIXED_SIZE_BYTES: Readonly<Record<number, number>> = { 1: 8, 5: 4 };

/** Reads the fields of a message. Throws a StatusError 413 if the body has too many fields. */
function readFields(bytes: Buffer, budget: FieldBudget): WireField[] {
  const fields: WireField[] = [];
  let position = 0;
  while (position < bytes.length) {
    budget.remaining -= 1;
    if (budget.remaining < 0) {
      throw tooLarge("the object has too many fields");
    }
    const { value: tag, next } = readVarint(bytes, position);
    const wireType = Number(tag & 7n);
    const number = Number(tag >> 3n);
    if (wireType === 0) {
      const varint = readVarint(bytes, next);
      fields.push({ number, value: varint.value });
      position = varint.next;
      continue;
    }
    const length =
      wireType === 2
        ? readVarint(bytes, next)
        : { value: BigInt(FIXED_SIZE_BYTES[wireType] ?? -1), next };
    const end = length.next + Number(length.value);
    if (length.value < 0n || end > bytes.length) {
      throw new SyntaxError("protobuf: a field is truncated");
    }
    fields.push({ number, value: bytes.subarray(length.next, end) });
    position = end;
  }
  return fields;
}

function toBytes(value: bigint | Buffer): Buffer {
  return typeof value === "bigint" ? Buffer.alloc(0) : value;
}

function toInteger(value: bigint | Buffer | undefined): number {
  return typeof value === "bigint" ? Number(BigInt.asIntN(64, value)) : 0;
}

function readParts(
  value: bigint | Buffer,
  budget: FieldBudget,
): ReadonlyMap<number, bigint | Buffer> {
  return new Map(readFields(toBytes(value), budget).map((field) => [field.number, field.value]));
}

/** Prints a time, or returns undefined for the zero time. */
function printTime(parts: ReturnType<typeof readParts>, hasMicros: boolean): string | undefined {
  if (parts.size === 0) {
    return undefined;
  }
  const text = rfc3339(toInteger(parts.get(1)) * 1000);
  const micros = String(Math.floor(toInteger(parts.get(2)) / 1000)).padStart(6, "0");
  return hasMicros ? text.replace("Z", `.${micros}Z`) : text;
}

function readIntOrString(value: bigint | Buffer, budget: FieldBudget): number | string {
  const parts = readParts(value, budget);
  return toInteger(parts.get(1)) === 1
    ? toBytes(parts.get(3) ?? 0n).toString("utf8")
    : toInteger(parts.get(2));
}

function readQuantity(value: bigint | Buffer, budget: FieldBudget): string {
  return toBytes(readParts(value, budget).get(1) ?? 0n).toString("utf8");
}

const SCALAR_READERS = {
  text: (value: bigint | Buffer) => toBytes(value).toString("utf8"),
  bytes: (value: bigint | Buffer) => toBytes(value).toString("base64"),
  integer: toInteger,
  count: (value: bigint | Buffer) => toInteger(value) || undefined,
  flag: (value: bigint | Buffer) => toInteger(value) !== 0 || undefined,
  boolean: (value: bigint | Buffer) => toInteger(value) !== 0,
  time: (value: bigint | Buffer, budget: FieldBudget) => printTime(readParts(value, budget), false),
  microTime: (value: bigint | Buffer, budget: FieldBudget) =>
    printTime(readParts(value, budget), true),
  integerOrText: readIntOrString,
  quantity: readQuantity,
  ignored: () => undefined,
  empty: () => undefined,
} as const;

function readValue(value: bigint | Buffer, type: FieldType, budget: FieldBudget): unknown {
  return typeof type === "string"
    ? SCALAR_READERS[type](value, budget)
    : readMessage(toBytes(value), MESSAGES[type.message] ?? {}, budget);
}

/** Returns whether the value is unset. Go writes unset strings as empty strings. */
function isUnset(value: unknown): boolean {
  return value === undefined || value === "";
}

/** Error for a field that has a value but is not in {@link MESSAGES}. Ignoring such a field would lose the value. */
class UnknownFieldError extends Error {
  override readonly name = "UnknownFieldError";
}

/**
 * Rejects an unknown field that has a value. Go encodes unset strings and messages as empty values. Numbers are always
 * rejected, because 0 and false may differ from the default, for example in `hostUsers`.
 */
function checkEmpty(value: bigint | Buffer): void {
  if (typeof value === "bigint" || value.length > 0) {
    throw new UnknownFieldError();
  }
}

/** Maximum depth of the empty messages in a new object's status. */
const EMPTY_DEPTH_MAX = 4;

/** Returns whether a message is empty. Go writes an empty status as nested zeros, empty strings and empty messages. */
function isEmptyMessage(value: bigint | Buffer, budget: FieldBudget, depth = 0): boolean {
  if (typeof value === "bigint") return value === 0n;
  return (
    depth <= EMPTY_DEPTH_MAX &&
    readFields(value, budget).every((field) => isEmptyMessage(field.value, budget, depth + 1))
  );
}

function checkEmptyMessage(value: bigint | Buffer, budget: FieldBudget): void {
  try {
    if (isEmptyMessage(value, budget)) return;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
  throw new UnknownFieldError();
}

/** Adds a value in place, because copying a long list for each item would take quadratic time. */
function addValue(result: Fields, value: bigint | Buffer, { field, budget }: ReadContext): void {
  const { name, type, collection } = field;
  if (collection === "list") {
    const list = (result[name] ??= []) as unknown[];
    list.push(readValue(value, type, budget));
  } else if (collection === "map") {
    const entry = readParts(value, budget);
    const map = (result[name] ??= {}) as Fields;
    const key = toBytes(entry.get(1) ?? 0n).toString("utf8");
    setField(map, key, readValue(entry.get(2) ?? Buffer.alloc(0), type, budget));
  } else if (collection === "inline") {
    Object.assign(result, readValue(value, type, budget));
  } else {
    const decoded = readValue(value, type, budget);
    if (!isUnset(decoded)) {
      result[name] = decoded;
    }
  }
}

function readMessage(bytes: Buffer, message: Message, budget: FieldBudget): Fields {
  const result: Fields = {};
  for (const { number, value } of readFields(bytes, budget)) {
    const field = message[number];
    if (field === undefined) {
      checkEmpty(value);
    } else if (field.type === "empty") {
      checkEmptyMessage(value, budget);
    } else if (field.type !== "ignored") {
      addValue(result, value, { field, budget });
    }
  }
  return result;
}

/**
 * Decodes the body of a request for a resource or for its `subresource`. Throws a SyntaxError or a StatusError 413. Returns undefined if
 * {@link MESSAGES} lacks the kind, lacks a field that has a value, or, when `status` is written, lacks the kind's status fields.
 */
export function decodeProtobuf(body: Buffer, subresource = ""): Fields | undefined {
  try {
    return decodeEnvelope(body, subresource);
  } catch (error) {
    if (error instanceof UnknownFieldError) {
      return undefined;
    }
    throw error;
  }
}

/** Returns false for a status write if {@link MESSAGES} does not name the status fields, because the status then cannot be decoded. */
function canWrite(message: Message, subresource: string): boolean {
  return subresource !== "status" || message[3]?.type !== "empty";
}

function decodeEnvelope(body: Buffer, subresource: string): Fields | undefined {
  if (!body.subarray(0, MAGIC.length).equals(MAGIC)) {
    throw new SyntaxError("protobuf: the body has the wrong prefix");
  }
  const budget = { remaining: FIELDS_MAX };
  const envelope = readParts(body.subarray(MAGIC.length), budget);
  const typeMeta = readMessage(toBytes(envelope.get(1) ?? 0n), TYPE_META_MESSAGE, budget);
  const kind = typeof typeMeta["kind"] === "string" ? typeMeta["kind"] : "";
  const message = Object.hasOwn(MESSAGES, kind) ? MESSAGES[kind] : undefined;
  return message === undefined || !canWrite(message, subresource)
    ? undefined
    : { ...typeMeta, ...readMessage(toBytes(envelope.get(2) ?? 0n), message, budget) };
}
