// SPDX-License-Identifier: Apache-2.0
// Bytes of messages that change links.

const ATTRIBUTE_BYTES = 4;

/** 32 bits. */
export function u32(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value, true);
  return bytes;
}

/** 16 bits. */
export function u16(value: number): Uint8Array {
  const bytes = new Uint8Array(2);
  new DataView(bytes.buffer).setUint16(0, value, true);
  return bytes;
}

/** 8 bits. */
export function u8(value: number): Uint8Array {
  return new Uint8Array([value]);
}

/** An attribute; a text ends with a zero. */
export function attribute(type: number, value: Uint8Array | string): Uint8Array {
  const bytes = typeof value === "string" ? Buffer.from(`${value}\0`) : value;
  const padded = Buffer.alloc(ATTRIBUTE_BYTES + Math.ceil(bytes.length / 4) * 4);
  padded.writeUInt16LE(ATTRIBUTE_BYTES + bytes.length, 0);
  padded.writeUInt16LE(type, 2);
  padded.set(bytes, ATTRIBUTE_BYTES);
  return padded;
}

/** An attribute that is a list of them. */
export function nested(type: number, ...parts: readonly Uint8Array[]): Uint8Array {
  return attribute(type, Buffer.concat(parts));
}

/** Bytes of a MAC. */
export function macBytes(mac: string): Uint8Array {
  return Buffer.from(mac.replaceAll(":", ""), "hex");
}
