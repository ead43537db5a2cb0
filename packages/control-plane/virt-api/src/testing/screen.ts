// SPDX-License-Identifier: Apache-2.0
// A screen of two by one pixels, red and blue, as QEMU serves it. Source: RFC 6143
import { buffer } from "node:stream/consumers";
import { duplexPair, type Duplex } from "node:stream";

const u16 = (...numbers: readonly number[]): Buffer => {
  const bytes = Buffer.alloc(numbers.length * 2);
  for (const [index, number] of numbers.entries()) bytes.writeUInt16BE(number, index * 2);
  return bytes;
};

/** Messages of the server, in protocol order; tests replace some by hostile ones. */
export const SCREEN = {
  version: Buffer.from("RFB 003.008\n"),
  security: Buffer.from([2, 2, 1]),
  result: Buffer.alloc(4),
  start: Buffer.concat([u16(2, 1), Buffer.alloc(16), Buffer.from([0, 0, 0, 1, 0x61])]),
  before: Buffer.from([2, 3, 0, 0, 0, 0, 0, 0, 1, 0x62]),
  update: Buffer.concat([
    Buffer.from([0, 0]),
    u16(2),
    u16(0, 0, 1, 1),
    Buffer.alloc(4),
    Buffer.from([255, 0, 0, 0]),
    u16(1, 0, 1, 1),
    Buffer.alloc(4),
    Buffer.from([0, 0, 255, 0]),
  ]),
};

/** Opens a screen that sends all messages at once, and records the client's bytes. Returns the client's side. */
export function aScreen(
  change: { readonly [Part in keyof typeof SCREEN]?: Buffer | undefined } = {},
): {
  readonly stream: Duplex;
  /** Returns the client's bytes after it has closed its side. */
  readonly received: () => Promise<Buffer>;
} {
  const [stream, server] = duplexPair();
  const received = buffer(server);
  // A destroyed stream sends nothing more.
  received.catch(() => undefined);
  server.end(
    Buffer.concat(Object.values({ ...SCREEN, ...change }).filter((part) => part !== undefined)),
  );
  return { stream, received: () => received };
}
