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

  test("does not copy bytes of one piece", () => {
    const piece = bytes(1, 2, 3, 4);
    const queue = queueOf(piece);
    expect([queue.take(2)?.buffer, queue.take(2)?.buffer]).toEqual([piece.buffer, piece.buffer]);
  });
});
