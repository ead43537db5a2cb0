// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import {
  CAPTURE_LIMITS,
  buildCapturePath,
  parseCapturePath,
  parseCaptureQuery,
  printCaptureQuery,
  PacketLimiter,
} from "./capture.ts";

const ORDER = { interface: "blue", filter: "tcp port 80 and not arp", seconds: 5, bytes: 4096 };

describe("a capture query", () => {
  test("round-trips", () => {
    expect(parseCaptureQuery(printCaptureQuery(ORDER))).toEqual({ options: ORDER });
  });

  test("requires only the interface", () => {
    const { seconds, bytes } = CAPTURE_LIMITS;
    const options = {
      interface: "blue",
      filter: "",
      seconds: seconds.fallback,
      bytes: bytes.fallback,
    };
    expect(parseCaptureQuery("interface=blue")).toEqual({ options });
  });

  test("accepts a filter in a browser's encoding", () => {
    const options = { filter: "host 10.0.0.1" };
    expect(parseCaptureQuery("interface=b&filter=host+10.0.0.1")).toMatchObject({ options });
  });

  test.each([
    { query: "", problems: ["interface: must name an interface of the VM"] },
    { query: "interface=%", problems: ["query: is not encoded as a URL's query"] },
    {
      query: "interface=&seconds=0&bytes=1e9&color=red",
      problems: [
        "interface: must name an interface of the VM",
        "seconds: must be a whole number from 1 to 3600",
        "bytes: must be a whole number from 1024 to 1073741824",
        "color: is not known; known are interface, filter, seconds, bytes",
      ],
    },
    {
      query: "interface=b&filter=arp%0a-w",
      problems: ["filter: must be printable ASCII on one line"],
    },
    {
      query: `interface=b&filter=${"a".repeat(1001)}`,
      problems: ["filter: must have at most 1000 characters"],
    },
  ])("$query is rejected with all its problems", ({ query, problems }) => {
    expect(parseCaptureQuery(query)).toEqual({ problems });
  });
});

describe("a capture path", () => {
  const KEY = { namespace: "blue", name: "vm1" };

  test("round-trips with any user name", () => {
    const request = {
      stream: "capture",
      options: ORDER,
      user: "system:serviceaccount:a/b?c",
    } as const;
    expect(parseCapturePath(buildCapturePath(KEY, request))).toEqual({ key: KEY, ...request });
  });

  test.each([
    "/v1/namespaces/a/virtualmachineinstances/b/console",
    "/v1/namespaces/a/virtualmachineinstances/b/capture?interface=c",
    "/v1/namespaces/a/virtualmachineinstances/b/capture/user",
    "/",
  ])("rejects %s", (path) => {
    expect(parseCapturePath(path)).toBeUndefined();
  });
});

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
  const packets = new PacketLimiter(most);
  const passed: Uint8Array[] = [];
  for (let at = 0; at < capture.length; at += size) {
    const { bytes, isFull } = packets.add(capture.subarray(at, at + size));
    passed.push(...bytes);
    if (isFull) return { passed: all(...passed), isFull };
  }
  return { passed: all(...passed), isFull: false };
}

describe.each([1, 7, 24, 1000])("in pieces of %i bytes", (size) => {
  const capture = all(HEADER, packet(60), packet(0), packet(100));

  test("passes a capture on unchanged", () => {
    expect(run(capture, { most: 1000, size })).toEqual({ passed: capture, isFull: false });
  });

  test("ends a capture before the packet that exceeds the limit", () => {
    const first = all(HEADER, packet(60), packet(0));
    expect(run(capture, { most: first.length + 50, size })).toEqual({
      passed: first,
      isFull: true,
    });
  });

  test("does not pass on a truncated packet", () => {
    const first = all(HEADER, packet(60), packet(0));
    const cut = capture.subarray(0, capture.length - 1);
    expect(run(cut, { most: 1000, size })).toEqual({ passed: first, isFull: false });
  });
});
