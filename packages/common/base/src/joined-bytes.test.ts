// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { ByteQueue, joinedBytes } from "./joined-bytes.ts";

const bytes = (...values: readonly number[]): Uint8Array => Uint8Array.from(values);

test.each([
  { name: "no parts", parts: [], want: bytes() },
  { name: "one part", parts: [bytes(1, 2)], want: bytes(1, 2) },
  {
    name: "parts in order, with empty parts",
    parts: [bytes(1), bytes(), bytes(2, 3), bytes(4)],
    want: bytes(1, 2, 3, 4),
  },
])("joins $name", ({ parts, want }) => {
  expect(joinedBytes(parts)).toEqual(want);
});

describe("a queue of bytes", () => {
  const queueOf = (...pieces: readonly Uint8Array[]): ByteQueue => {
    const queue = new ByteQueue();
    for (const piece of pieces) queue.push(piece);
    return queue;
  };

  test("returns bytes across pieces, and keeps them until enough have arrived", () => {
    const queue = queueOf(bytes(1, 2, 3), bytes(), bytes(4), bytes(5, 6));
    expect(queue.take(7)).toBeUndefined();
    expect(queue.length).toBe(6);
    const taken = [queue.take(1), queue.take(3), queue.take(0), queue.take(2)];
    expect(taken).toEqual([bytes(1), bytes(2, 3, 4), bytes(), bytes(5, 6)]);
    expect([queue.length, queue.take(1)]).toEqual([0, undefined]);
  });

  test("does not copy bytes of one large piece", () => {
    const piece = new Uint8Array(512);
    const queue = queueOf(piece);
    expect([queue.take(2)?.buffer, queue.take(2)?.buffer]).toEqual([piece.buffer, piece.buffer]);
  });

  test("collects small pieces in blocks, also between large ones", () => {
    const queue = new ByteQueue();
    const pieces = Array.from({ length: 10_000 }, (_piece, index) =>
      new Uint8Array(index === 5000 ? 600 : 1).fill(index % 251),
    );
    for (const piece of pieces.slice(0, 7000)) queue.push(piece);
    const taken = [queue.take(10), queue.take(3)];
    for (const piece of pieces.slice(7000)) queue.push(piece);
    const buffers = new Set(taken.map((part) => part?.buffer));
    while (queue.length > 0) {
      const part = queue.take(1);
      taken.push(part);
      buffers.add(part?.buffer);
    }
    expect(joinedBytes(taken.map((part) => part ?? bytes()))).toEqual(joinedBytes(pieces));
    expect(buffers.size).toBeLessThan(6);
  });
});
