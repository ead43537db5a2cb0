// SPDX-License-Identifier: Apache-2.0
// The subset of libvirt's wire protocol that a false daemon needs. Source: libvirt docs/kbase/internals/rpc.rst,
// src/remote/remote_protocol.x; RFC 4506 (XDR).

/** Procedures of the remote program. Source: remote_protocol.x. */
export const PROCEDURE = {
  open: 1,
  close: 2,
  readXml: 14,
  lookUp: 23,
  supportsFeature: 60,
  authList: 66,
  isPersistent: 151,
  createWithFlags: 196,
  getState: 212,
  register: 316,
  lifecycleEvent: 318,
  removedEvent: 333,
  define: 350,
  interfaceAddresses: 353,
  agentEvent: 348,
  registerClose: 360,
  removalFailedEvent: 367,
  detach: 392,
} as const;

/** Numbers of the programs. Source: remote_protocol.x, virkeepaliveprotocol.x. */
export const REMOTE_PROGRAM = 0x20008086;
export const KEEPALIVE_PROGRAM = 0x6b656570;

/** Kinds of packets. Source: virnetprotocol.x. */
export const REPLY = 1;
export const MESSAGE = 2;

/** Bytes of a packet's header, with its length. */
const HEAD_BYTES = 28;

/** A received packet. */
export interface Packet {
  readonly program: number;
  readonly procedure: number;
  readonly serial: number;
  readonly body: Buffer;
}

/** The header of a sent packet. */
export interface Head {
  readonly program?: number;
  readonly procedure: number;
  readonly kind: number;
  readonly serial?: number;
  /** 1 for an error. */
  readonly status?: number;
}

export function printInts(...values: readonly number[]): Buffer {
  const bytes = Buffer.alloc(values.length * 4);
  for (const [index, value] of values.entries()) bytes.writeInt32BE(value | 0, index * 4);
  return bytes;
}

export function printText(text: string): Buffer {
  const bytes = Buffer.from(text);
  return Buffer.concat([
    printInts(bytes.length),
    bytes,
    Buffer.alloc((4 - (bytes.length % 4)) % 4),
  ]);
}

/** An optional string that is present. */
export function printOptionalText(text: string): Buffer {
  return Buffer.concat([printInts(1), printText(text)]);
}

export function printDomain(name: string): Buffer {
  return Buffer.concat([printText(name), Buffer.alloc(16, 7), printInts(1)]);
}

export function printPacket(head: Head, body: Buffer = Buffer.alloc(0)): Buffer {
  const { program = REMOTE_PROGRAM, procedure, kind, serial = 0, status = 0 } = head;
  const length = HEAD_BYTES + body.length;
  return Buffer.concat([printInts(length, program, 1, procedure, kind, serial, status), body]);
}

/** A libvirt error: code, domain, text, level, and nothing else. Source: virnetprotocol.x virNetMessageError. */
export function printError(code: number, domain: number, text: string): Buffer {
  const rest = printInts(2, 0, 0, 0, 0, 0, 0, 0);
  return Buffer.concat([printInts(code, domain), printOptionalText(text), rest]);
}

export function createPacketReader(onPacket: (packet: Packet) => void): (data: Buffer) => void {
  let rest = Buffer.alloc(0);
  return (data) => {
    rest = Buffer.concat([rest, data]);
    for (;;) {
      const length = rest.length < 4 ? Infinity : rest.readUInt32BE(0);
      if (rest.length < length) return;
      onPacket({
        program: rest.readUInt32BE(4),
        procedure: rest.readInt32BE(12),
        serial: rest.readUInt32BE(20),
        body: rest.subarray(HEAD_BYTES, length),
      });
      rest = rest.subarray(length);
    }
  };
}
