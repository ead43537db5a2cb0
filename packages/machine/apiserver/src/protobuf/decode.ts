// SPDX-License-Identifier: Apache-2.0
// From Kubernetes' protobuf to JSON: typed clients (kubectl from 1.32 on) send built-in kinds so.
import { tooLarge } from "../meta/status.ts";
import { VALUES_MAX } from "../objects/extent.ts";
import { type Fields, setField } from "../objects/json.ts";
import { rfc3339 } from "../objects/time.ts";
import type { Field, FieldType, Message } from "./fields.ts";
import { MESSAGES } from "./messages.ts";

/** An entry of a map is a field with a key and a value: three where JSON has one. */
const FIELDS_MAX = 3 * VALUES_MAX;

/** Every body begins so. Source: Kubernetes runtime/serializer/protobuf. */
const MAGIC = Buffer.from("k8s\0");

const TYPE_META: Message = {
  1: { name: "apiVersion", type: "text" },
  2: { name: "kind", type: "text" },
};

/** What is left of the fields that a body may have in all. How deep they lie, the tables bound: no message holds itself. */
interface Room {
  fields: number;
}

/** What a value is read as. */
interface Reading {
  readonly field: Field;
  readonly room: Room;
}

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

/** Throws a StatusError 413 where there is no room for so many. */
function readFields(bytes: Buffer, room: Room): WireField[] {
  const fields: WireField[] = [];
  let at = 0;
  while (at < bytes.length) {
    room.fields -= 1;
    if (room.fields < 0) {
      throw tooLarge("the object has too many fields");
    }
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

/** The fields of a small message by their number. */
function partsOf(value: bigint | Buffer, room: Room): ReadonlyMap<number, bigint | Buffer> {
  return new Map(readFields(bytesOf(value), room).map((field) => [field.number, field.value]));
}

/** Seconds and nanoseconds; undefined for the zero time. */
function timeOf(parts: ReturnType<typeof partsOf>, micro: boolean): string | undefined {
  if (parts.size === 0) {
    return undefined;
  }
  const text = rfc3339(integerOf(parts.get(1)) * 1000);
  const micros = String(Math.floor(integerOf(parts.get(2)) / 1000)).padStart(6, "0");
  return micro ? text.replace("Z", `.${micros}Z`) : text;
}

function integerOrText(value: bigint | Buffer, room: Room): number | string {
  const parts = partsOf(value, room);
  return integerOf(parts.get(1)) === 1
    ? bytesOf(parts.get(3) ?? 0n).toString("utf8")
    : integerOf(parts.get(2));
}

/** A quantity is a message with its text. */
function quantityOf(value: bigint | Buffer, room: Room): string {
  return bytesOf(partsOf(value, room).get(1) ?? 0n).toString("utf8");
}

const SIMPLE = {
  text: (value: bigint | Buffer) => bytesOf(value).toString("utf8"),
  bytes: (value: bigint | Buffer) => bytesOf(value).toString("base64"),
  integer: integerOf,
  count: (value: bigint | Buffer) => integerOf(value) || undefined,
  flag: (value: bigint | Buffer) => integerOf(value) !== 0 || undefined,
  boolean: (value: bigint | Buffer) => integerOf(value) !== 0,
  time: (value: bigint | Buffer, room: Room) => timeOf(partsOf(value, room), false),
  microTime: (value: bigint | Buffer, room: Room) => timeOf(partsOf(value, room), true),
  integerOrText,
  quantity: quantityOf,
  ignored: () => undefined,
  empty: () => undefined,
} as const;

function readValue(value: bigint | Buffer, type: FieldType, room: Room): unknown {
  return typeof type === "string"
    ? SIMPLE[type](value, room)
    : readMessage(bytesOf(value), MESSAGES[type.message] ?? {}, room);
}

/** An empty text is an absent one: Go writes both alike. */
function isAbsent(value: unknown): boolean {
  return value === undefined || value === "";
}

/** A body with a field that is in no table; it must not be lost in silence. */
class UnknownFieldError extends Error {
  override readonly name = "UnknownFieldError";
}

/**
 * Go also writes empty texts and messages, unless the field is a pointer. Numbers are refused even when they are 0: every
 * number that is not a pointer is in a table, and a pointer to 0 or false can differ from the default, as `hostUsers` does.
 */
function checkEmpty(value: bigint | Buffer): void {
  if (typeof value === "bigint" || value.length > 0) {
    throw new UnknownFieldError();
  }
}

/** How deep empty messages lie in a new object's status. */
const EMPTY_DEPTH_MAX = 4;

/** Whether a message holds zeros, empty texts and empty messages only. Go writes a new object's status so. */
function isEmptyMessage(value: bigint | Buffer, room: Room, depth = 0): boolean {
  if (typeof value === "bigint") return value === 0n;
  return (
    depth <= EMPTY_DEPTH_MAX &&
    readFields(value, room).every((field) => isEmptyMessage(field.value, room, depth + 1))
  );
}

/** A text is no message, so reading it as one can fail: then it is not empty. */
function checkEmptyMessage(value: bigint | Buffer, room: Room): void {
  try {
    if (isEmptyMessage(value, room)) return;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
  throw new UnknownFieldError();
}

/** Adds one more value to what a field holds already: a long list must not be copied for each of its items. */
function addValue(result: Fields, value: bigint | Buffer, { field, room }: Reading): void {
  const { name, type, many } = field;
  if (many === "list") {
    // Only this function makes values of the result's own fields.
    const list = (result[name] ??= []) as unknown[];
    list.push(readValue(value, type, room));
  } else if (many === "map") {
    const entry = partsOf(value, room);
    const map = (result[name] ??= {}) as Fields;
    const key = bytesOf(entry.get(1) ?? 0n).toString("utf8");
    setField(map, key, readValue(entry.get(2) ?? Buffer.alloc(0), type, room));
  } else {
    const read = readValue(value, type, room);
    if (!isAbsent(read)) {
      result[name] = read;
    }
  }
}

function readMessage(bytes: Buffer, message: Message, room: Room): Fields {
  const result: Fields = {};
  for (const { number, value } of readFields(bytes, room)) {
    const field = message[number];
    if (field === undefined) {
      checkEmpty(value);
    } else if (field.type === "empty") {
      checkEmptyMessage(value, room);
    } else if (field.type !== "ignored") {
      addValue(result, value, { field, room });
    }
  }
  return result;
}

/**
 * The object in a body; undefined where its kind, or something in it, is not known in this form.
 * Throws SyntaxError where the body is damaged, and a StatusError 413 where it has too many fields.
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
  const room = { fields: FIELDS_MAX };
  const envelope = partsOf(body.subarray(MAGIC.length), room);
  const typeMeta = readMessage(bytesOf(envelope.get(1) ?? 0n), TYPE_META, room);
  const kind = typeof typeMeta["kind"] === "string" ? typeMeta["kind"] : "";
  const message = Object.hasOwn(MESSAGES, kind) ? MESSAGES[kind] : undefined;
  return message === undefined
    ? undefined
    : { ...typeMeta, ...readMessage(bytesOf(envelope.get(2) ?? 0n), message, room) };
}
