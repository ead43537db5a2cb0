// SPDX-License-Identifier: Apache-2.0
// Messages of netlink as bytes: headers and attributes, in the byte order of the machines that there are (x86-64, arm64).
// Source: netlink(7), linux/netlink.h

/** Lengths and beginnings are multiples of it. */
const ALIGN = 4;
const HEADER_BYTES = 16;
const ATTRIBUTE_BYTES = 4;
/** Bits of an attribute's type that say what kind of value it is. Source: NLA_TYPE_MASK */
const TYPE_MASK = 0x3fff;

/** Source: NLM_F_REQUEST and NLM_F_DUMP. */
export const DUMP = 0x301;
/** Source: NLM_F_REQUEST and NLM_F_ACK. */
export const ACK = 0x005;
/** What was told changed while it was told. Source: NLM_F_DUMP_INTR */
const INTERRUPTED = 0x10;

function aligned(bytes: number): number {
  return Math.ceil(bytes / ALIGN) * ALIGN;
}

/** A message to the kernel. */
export function messageOf(
  { type, flags }: { readonly type: number; readonly flags: number },
  body: Uint8Array,
): Uint8Array {
  const message = new Uint8Array(aligned(HEADER_BYTES + body.length));
  const view = new DataView(message.buffer);
  view.setUint32(0, HEADER_BYTES + body.length, true);
  view.setUint16(4, type, true);
  view.setUint16(6, flags, true);
  message.set(body, HEADER_BYTES);
  return message;
}

/** A message of the kernel. */
export interface Message {
  readonly type: number;
  /** It was told of something that changed meanwhile. */
  readonly isInterrupted: boolean;
  readonly body: Uint8Array;
}

/** The pieces of a list whose heads begin with a length, each with its bytes. */
function* piecesOf(
  bytes: Uint8Array,
  headBytes: number,
  lengthAt: (view: DataView) => number,
): Generator<DataView> {
  let from = 0;
  while (from + headBytes <= bytes.length) {
    const length = lengthAt(new DataView(bytes.buffer, bytes.byteOffset + from, headBytes));
    if (length < headBytes || from + length > bytes.length) return;
    yield new DataView(bytes.buffer, bytes.byteOffset + from, length);
    from += aligned(length);
  }
}

function bytesIn(view: DataView, from: number): Uint8Array {
  return new Uint8Array(view.buffer, view.byteOffset + from, view.byteLength - from);
}

/** The messages of an answer. */
export function messagesIn(data: Uint8Array): readonly Message[] {
  const pieces = [...piecesOf(data, HEADER_BYTES, (head) => head.getUint32(0, true))];
  return pieces.map((view) => ({
    type: view.getUint16(4, true),
    isInterrupted: (view.getUint16(6, true) & INTERRUPTED) !== 0,
    body: bytesIn(view, HEADER_BYTES),
  }));
}

/** Values by type; of those that come twice the last. */
export type Attributes = ReadonlyMap<number, Uint8Array>;

/** The attributes behind a head of so many bytes. */
export function attributesIn(bytes: Uint8Array | undefined, headBytes = 0): Attributes {
  const rest = bytes?.subarray(headBytes) ?? new Uint8Array();
  const pieces = [...piecesOf(rest, ATTRIBUTE_BYTES, (head) => head.getUint16(0, true))];
  return new Map(
    pieces.map((view) => [view.getUint16(2, true) & TYPE_MASK, bytesIn(view, ATTRIBUTE_BYTES)]),
  );
}

/** All values of an attribute that may come often. */
export function valuesIn(bytes: Uint8Array, type: number): readonly Uint8Array[] {
  return [...piecesOf(bytes, ATTRIBUTE_BYTES, (head) => head.getUint16(0, true))]
    .filter((view) => (view.getUint16(2, true) & TYPE_MASK) === type)
    .map((view) => bytesIn(view, ATTRIBUTE_BYTES));
}

/** An attribute; absent or of another size: undefined. */
export function findNumber(attributes: Attributes, type: number): number | undefined {
  const value = attributes.get(type);
  if (value?.length === 1) return value[0];
  if (value?.length !== 4) return undefined;
  return new DataView(value.buffer, value.byteOffset, 4).getUint32(0, true);
}

/** A text, which ends with a zero; empty where it is absent. */
export function textIn(attributes: Attributes, type: number): string {
  const [text = ""] = Buffer.from(attributes.get(type) ?? [])
    .toString("utf8")
    .split("\0", 1);
  return text;
}
