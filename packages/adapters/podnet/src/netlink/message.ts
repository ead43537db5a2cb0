// SPDX-License-Identifier: Apache-2.0
// Encodes and decodes netlink messages, in the byte order of x86-64 and arm64. Source: netlink(7), linux/netlink.h
import { getSystemErrorMap } from "node:util";

/** Alignment of lengths and offsets, in bytes. */
const ALIGN = 4;
const HEADER_BYTES = 16;
const ATTRIBUTE_BYTES = 4;
/** Mask of an attribute's type without flag bits. Source: NLA_TYPE_MASK */
const TYPE_MASK = 0x3fff;

/** Source: NLM_F_REQUEST, NLM_F_DUMP */
export const REQUEST_DUMP = 0x301;
/** Source: NLM_F_REQUEST, NLM_F_ACK */
export const REQUEST_ACK = 0x005;
/** Source: NLM_F_DUMP_INTR */
const INTERRUPTED = 0x10;

function alignUp(bytes: number): number {
  return Math.ceil(bytes / ALIGN) * ALIGN;
}

export function encodeMessage(
  { type, flags }: { readonly type: number; readonly flags: number },
  body: Uint8Array,
): Uint8Array {
  const message = new Uint8Array(alignUp(HEADER_BYTES + body.length));
  const view = new DataView(message.buffer);
  view.setUint32(0, HEADER_BYTES + body.length, true);
  view.setUint16(4, type, true);
  view.setUint16(6, flags, true);
  message.set(body, HEADER_BYTES);
  return message;
}

export interface Message {
  readonly type: number;
  /** Whether the kernel's table changed during the dump. */
  readonly isInterrupted: boolean;
  readonly body: Uint8Array;
}

/** Splits a sequence of records, each of which begins with its length. */
function* splitRecords(
  bytes: Uint8Array,
  headBytes: number,
  lengthAt: (view: DataView) => number,
): Generator<DataView> {
  let start = 0;
  while (start + headBytes <= bytes.length) {
    const length = lengthAt(new DataView(bytes.buffer, bytes.byteOffset + start, headBytes));
    if (length < headBytes || start + length > bytes.length) return;
    yield new DataView(bytes.buffer, bytes.byteOffset + start, length);
    start += alignUp(length);
  }
}

function sliceView(view: DataView, offset: number): Uint8Array {
  return new Uint8Array(view.buffer, view.byteOffset + offset, view.byteLength - offset);
}

export function decodeMessages(data: Uint8Array): readonly Message[] {
  const records = [...splitRecords(data, HEADER_BYTES, (header) => header.getUint32(0, true))];
  return records.map((view) => ({
    type: view.getUint16(4, true),
    isInterrupted: (view.getUint16(6, true) & INTERRUPTED) !== 0,
    body: sliceView(view, HEADER_BYTES),
  }));
}

export type Attributes = ReadonlyMap<number, Uint8Array>;

export function decodeAttributes(bytes: Uint8Array | undefined, headBytes = 0): Attributes {
  const attributeBytes = bytes?.subarray(headBytes) ?? new Uint8Array();
  const records = [
    ...splitRecords(attributeBytes, ATTRIBUTE_BYTES, (header) => header.getUint16(0, true)),
  ];
  return new Map(
    records.map((view) => [view.getUint16(2, true) & TYPE_MASK, sliceView(view, ATTRIBUTE_BYTES)]),
  );
}

export function findValues(bytes: Uint8Array, type: number): readonly Uint8Array[] {
  return [...splitRecords(bytes, ATTRIBUTE_BYTES, (header) => header.getUint16(0, true))]
    .filter((view) => (view.getUint16(2, true) & TYPE_MASK) === type)
    .map((view) => sliceView(view, ATTRIBUTE_BYTES));
}

export function findNumber(attributes: Attributes, type: number): number | undefined {
  const value = attributes.get(type);
  if (value?.length === 1) return value[0];
  if (value?.length !== 4) return undefined;
  return new DataView(value.buffer, value.byteOffset, 4).getUint32(0, true);
}

/** Returns the text in an attribute, up to the terminating zero byte. Returns "" if the attribute does not exist. */
export function findText(attributes: Attributes, type: number): string {
  const [text = ""] = Buffer.from(attributes.get(type) ?? [])
    .toString("utf8")
    .split("\0", 1);
  return text;
}

const ATTRIBUTE_HEADER_BYTES = 4;

export function u32(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value, true);
  return bytes;
}

export function u16(value: number): Uint8Array {
  const bytes = new Uint8Array(2);
  new DataView(bytes.buffer).setUint16(0, value, true);
  return bytes;
}

export function u8(value: number): Uint8Array {
  return new Uint8Array([value]);
}

export function encodeAttribute(type: number, value: Uint8Array | string): Uint8Array {
  const bytes = typeof value === "string" ? Buffer.from(`${value}\0`) : value;
  const padded = Buffer.alloc(ATTRIBUTE_HEADER_BYTES + Math.ceil(bytes.length / 4) * 4);
  padded.writeUInt16LE(ATTRIBUTE_HEADER_BYTES + bytes.length, 0);
  padded.writeUInt16LE(type, 2);
  padded.set(bytes, ATTRIBUTE_HEADER_BYTES);
  return padded;
}

export function encodeNestedAttribute(type: number, ...parts: readonly Uint8Array[]): Uint8Array {
  return encodeAttribute(type, Buffer.concat(parts));
}

export function parseMac(mac: string): Uint8Array {
  return Buffer.from(mac.replaceAll(":", ""), "hex");
}

export function describeErrno(errno: number): string {
  const [name, description] = getSystemErrorMap().get(-errno) ?? [];
  return name === undefined || description === undefined
    ? `error ${String(errno)}`
    : `${description} (${name})`;
}
