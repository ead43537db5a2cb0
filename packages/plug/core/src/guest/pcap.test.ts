// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { WholePackets } from "./pcap.ts";

const HEADER = new Uint8Array(24).fill(1);

function packet(length: number): Uint8Array {
  const bytes = new Uint8Array(16 + length).fill(7);
  new DataView(bytes.buffer).setUint32(8, length, true);
  return bytes;
}

function all(...parts: readonly Uint8Array[]): Uint8Array {
  return Uint8Array.from(parts.flatMap((part) => [...part]));
}

/** Gives a capture in pieces of that size; what went on, and whether more would be taken. */
function run(capture: Uint8Array, { most, size }: { most: number; size: number }) {
  const packets = new WholePackets(most);
  const passed: Uint8Array[] = [];
  for (let at = 0; at < capture.length; at += size) {
    const { bytes, isFull } = packets.take(capture.subarray(at, at + size));
    passed.push(...bytes);
    if (isFull) return { passed: all(...passed), isFull };
  }
  return { passed: all(...passed), isFull: false };
}

describe.each([1, 7, 24, 1000])("in pieces of %i bytes", (size) => {
  const capture = all(HEADER, packet(60), packet(0), packet(100));

  test("a capture goes on as it is", () => {
    expect(run(capture, { most: 1000, size })).toEqual({ passed: capture, isFull: false });
  });

  test("it ends before the packet that is too much", () => {
    const first = all(HEADER, packet(60), packet(0));
    expect(run(capture, { most: first.length + 50, size })).toEqual({
      passed: first,
      isFull: true,
    });
  });

  test("a packet that is cut off does not go on", () => {
    const first = all(HEADER, packet(60), packet(0));
    const cut = capture.subarray(0, capture.length - 1);
    expect(run(cut, { most: 1000, size })).toEqual({ passed: first, isFull: false });
  });
});
