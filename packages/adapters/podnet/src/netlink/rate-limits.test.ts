// SPDX-License-Identifier: Apache-2.0
import type { RateLimit } from "@patchbay/core/nics";
import { describe, expect, test } from "vitest";
import type { WiredLink } from "../links.ts";
import { decodeAttributes, decodeMessages, encodeAttribute, encodeMessage } from "./message.ts";
import { decodeRateLimits, encodeRateLimit, hasRateLimit, isSameRateLimit } from "./rate-limits.ts";
import { IFLA, MESSAGE_HEADER_BYTES, RTM } from "./rtnetlink.ts";

const LINKS = [{ name: "tap1", index: 4 }] as unknown as readonly WiredLink[];
const SIMPLE: RateLimit = {
  average: { bytesPerSecond: 1_000_000, burstBytes: 50_000 },
  queueBytes: 150_000,
};
const FULL: RateLimit = { ...SIMPLE, peak: { bytesPerSecond: 2_000_000, burstBytes: 2000 } };
const WIDE: RateLimit = {
  average: { bytesPerSecond: 10_000_000_000, burstBytes: 1_000_000 },
  peak: { bytesPerSecond: 20_000_000_000, burstBytes: 20_000_000 },
  queueBytes: 4_294_967_295,
};

/** The kernel's report of a filter: buckets in ticks of 64 ns instead of the attributes for bytes. */
function report(limit: RateLimit, { handle = 0x7062_0000 } = {}): Uint8Array {
  const sent = Buffer.from(encodeRateLimit(4, limit));
  const header = sent.subarray(16, 16 + MESSAGE_HEADER_BYTES.qdisc);
  header.writeUInt32LE(handle, 8);
  const attributes = decodeAttributes(sent, 16 + MESSAGE_HEADER_BYTES.qdisc);
  const options = decodeAttributes(attributes.get(2));
  const parameters = Buffer.from(options.get(1) ?? []);
  [limit.average, limit.peak].forEach((bucket, place) => {
    const ticks = bucket && Math.floor(bucket.burstBytes / bucket.bytesPerSecond / 64e-9);
    parameters.writeUInt32LE(ticks ?? 0, 28 + place * 4);
  });
  const wide = [4, 5].flatMap((type) => {
    const value = options.get(type);
    return value === undefined ? [] : [encodeAttribute(type, value)];
  });
  const body = [encodeAttribute(1, parameters), ...wide];
  return encodeMessage(
    { type: RTM.newQdisc, flags: 0 },
    Buffer.concat([header, encodeAttribute(1, "tbf"), encodeAttribute(2, Buffer.concat(body))]),
  );
}

describe("a rate limit", () => {
  test.each([
    { name: "with an average", limit: SIMPLE },
    { name: "with a peak", limit: FULL },
    { name: "with rates of more than 32 bits", limit: WIDE },
  ])("$name is recognized in the kernel's report", ({ limit }) => {
    const decoded = decodeRateLimits(decodeMessages(report(limit)), LINKS).get("tap1");
    expect(decoded?.average.bytesPerSecond).toBe(limit.average.bytesPerSecond);
    expect(decoded?.peak?.bytesPerSecond).toBe(limit.peak?.bytesPerSecond);
    expect(isSameRateLimit(decoded, limit)).toBe(true);
  });

  test.each<{ name: string; other: RateLimit | undefined }>([
    { name: "no limit", other: undefined },
    { name: "no peak", other: SIMPLE },
    { name: "another queue", other: { ...FULL, queueBytes: 150_001 } },
    {
      name: "another average",
      other: { ...FULL, average: { ...FULL.average, bytesPerSecond: 999_999 } },
    },
    {
      name: "another burst",
      other: { ...FULL, average: { ...FULL.average, burstBytes: 50_010 } },
    },
    {
      name: "another peak",
      other: { ...FULL, peak: { bytesPerSecond: 2_000_001, burstBytes: 2000 } },
    },
  ])("differs from $name", ({ other }) => {
    const decoded = decodeRateLimits(decodeMessages(report(FULL)), LINKS).get("tap1");
    expect(isSameRateLimit(decoded, other)).toBe(false);
    expect(isSameRateLimit(other, decoded)).toBe(false);
  });

  test("of another program, on another link or without its parameters is ignored", () => {
    const foreign = report(FULL, { handle: 0x8001_0000 });
    expect(decodeRateLimits(decodeMessages(foreign), LINKS)).toEqual(new Map());
    expect(decodeRateLimits(decodeMessages(report(FULL)), [])).toEqual(new Map());
    const head = Buffer.alloc(MESSAGE_HEADER_BYTES.qdisc);
    head.writeUInt32LE(0x7062_0000, 8);
    head.writeUInt32LE(0xffff_ffff, 12);
    const body = Buffer.concat([head, encodeAttribute(1, "tbf")]);
    const empty = encodeMessage({ type: RTM.newQdisc, flags: 0 }, body);
    expect(decodeRateLimits(decodeMessages(empty), LINKS)).toEqual(new Map());
  });
});

test.each([
  { kind: "tbf", type: RTM.newLink, want: true },
  { kind: "mq", type: RTM.newLink, want: false },
  { kind: "tbf", type: RTM.newAddress, want: false },
])("a message of type $type with $kind reports a limit: $want", ({ kind, type, want }) => {
  const head = Buffer.alloc(MESSAGE_HEADER_BYTES.link);
  const body = Buffer.concat([head, encodeAttribute(IFLA.qdisc, kind)]);
  const [message] = decodeMessages(encodeMessage({ type, flags: 0 }, body));
  expect(message && hasRateLimit(message)).toBe(want);
});
