// SPDX-License-Identifier: Apache-2.0
// Encodes and decodes token bucket filters. Source: linux/pkt_sched.h, net/sched/sch_tbf.c
import type { RateLimit, TokenBucket } from "@patchbay/core/nics";
import { RATE_HANDLE, type WiredLink } from "../links.ts";
import {
  type Attributes,
  decodeAttributes,
  encodeAttribute,
  encodeMessage,
  encodeNestedAttribute,
  findText,
  type Message,
  REQUEST_ACK,
  u32,
} from "./message.ts";
import { CREATE, IFLA, MESSAGE_HEADER_BYTES, REPLACE, RTM, toView } from "./rtnetlink.ts";

const KIND = "tbf";
const TC_H_ROOT = 0xffff_ffff;
const TCA = { kind: 1, options: 2 };
const TBF = { parameters: 1, rate64: 4, peakRate64: 5, burst: 6, peakBurst: 7 };
/** Size of struct tc_tbf_qopt, and offsets in it. Its two struct tc_ratespec begin at 0 and 12. */
const PARAMETER_BYTES = 36;
const OFFSETS = { average: 0, peak: 12, queue: 24, burst: 28, peakBurst: 32 };
const [LINK_LAYER_OFFSET, RATE_OFFSET] = [1, 8];
/** Value of a rate's link layer for which the kernel needs no table of transmission times. Source: TC_LINKLAYER_ETHERNET */
const ETHERNET = 1;
const U32_MAX = 0xffff_ffff;
/** Duration of a tick, in seconds. The kernel reports the size of buckets in ticks. Source: PSCHED_SHIFT */
const TICK_SECONDS = 64e-9;

function encodeHeader(index: number): Buffer {
  const header = Buffer.alloc(MESSAGE_HEADER_BYTES.qdisc);
  header.writeInt32LE(index, 4);
  header.writeUInt32LE(RATE_HANDLE, 8);
  header.writeUInt32LE(TC_H_ROOT, 12);
  return header;
}

function encodeBucket(
  bucket: TokenBucket | undefined,
  { rate64, burst }: { readonly rate64: number; readonly burst: number },
): readonly Uint8Array[] {
  if (bucket === undefined) return [];
  const { bytesPerSecond, burstBytes } = bucket;
  const rateBytes = Buffer.alloc(8);
  rateBytes.writeBigUInt64LE(BigInt(bytesPerSecond));
  return [
    ...(bytesPerSecond > U32_MAX ? [encodeAttribute(rate64, rateBytes)] : []),
    encodeAttribute(burst, u32(burstBytes)),
  ];
}

export function encodeRateLimit(
  index: number,
  { average, peak, queueBytes }: RateLimit,
): Uint8Array {
  const parameters = Buffer.alloc(PARAMETER_BYTES);
  const writeRate = (bucket: TokenBucket | undefined, offset: number): void => {
    if (bucket === undefined) return;
    parameters.writeUInt8(ETHERNET, offset + LINK_LAYER_OFFSET);
    parameters.writeUInt32LE(Math.min(bucket.bytesPerSecond, U32_MAX), offset + RATE_OFFSET);
  };
  writeRate(average, OFFSETS.average);
  writeRate(peak, OFFSETS.peak);
  parameters.writeUInt32LE(queueBytes, OFFSETS.queue);
  const options = encodeNestedAttribute(
    TCA.options,
    encodeAttribute(TBF.parameters, parameters),
    ...encodeBucket(average, { rate64: TBF.rate64, burst: TBF.burst }),
    ...encodeBucket(peak, { rate64: TBF.peakRate64, burst: TBF.peakBurst }),
  );
  return encodeMessage(
    { type: RTM.newQdisc, flags: REQUEST_ACK | CREATE | REPLACE },
    Buffer.concat([encodeHeader(index), encodeAttribute(TCA.kind, KIND), options]),
  );
}

export function encodeRateRemoval(index: number): Uint8Array {
  return encodeMessage({ type: RTM.deleteQdisc, flags: REQUEST_ACK }, encodeHeader(index));
}

/** Checks whether a link has a token bucket filter, whichever program added it. */
export function hasRateLimit(message: Message): boolean {
  if (message.type !== RTM.newLink) return false;
  const attributes = decodeAttributes(message.body, MESSAGE_HEADER_BYTES.link);
  return findText(attributes, IFLA.qdisc) === KIND;
}

function decodeBucket(
  options: Attributes,
  offsets: { readonly rate: number; readonly burst: number; readonly rate64: number },
): TokenBucket {
  const parameters = Buffer.from(options.get(TBF.parameters) ?? []);
  const wideRate = options.get(offsets.rate64);
  const bytesPerSecond =
    wideRate === undefined
      ? parameters.readUInt32LE(offsets.rate + RATE_OFFSET)
      : Number(Buffer.from(wideRate).readBigUInt64LE());
  const seconds = parameters.readUInt32LE(offsets.burst) * TICK_SECONDS;
  return { bytesPerSecond, burstBytes: Math.round(seconds * bytesPerSecond) };
}

function decodeRateLimit(message: Message): readonly (readonly [number, RateLimit])[] {
  if (message.type !== RTM.newQdisc || message.body.length < MESSAGE_HEADER_BYTES.qdisc) return [];
  const view = toView(message);
  const isOwn = view.getUint32(8, true) === RATE_HANDLE && view.getUint32(12, true) === TC_H_ROOT;
  const attributes = decodeAttributes(message.body, MESSAGE_HEADER_BYTES.qdisc);
  const options = decodeAttributes(attributes.get(TCA.options));
  const parameters = Buffer.from(options.get(TBF.parameters) ?? []);
  if (!isOwn || findText(attributes, TCA.kind) !== KIND || parameters.length < PARAMETER_BYTES)
    return [];
  const [average, peak] = [
    decodeBucket(options, {
      rate: OFFSETS.average,
      burst: OFFSETS.burst,
      rate64: TBF.rate64,
    }),
    decodeBucket(options, {
      rate: OFFSETS.peak,
      burst: OFFSETS.peakBurst,
      rate64: TBF.peakRate64,
    }),
  ];
  const queueBytes = parameters.readUInt32LE(OFFSETS.queue);
  const limit = { average, ...(peak.bytesPerSecond > 0 && { peak }), queueBytes };
  return [[view.getInt32(4, true), limit]];
}

export type RateLimits = ReadonlyMap<string, RateLimit>;

export function decodeRateLimits(
  messages: readonly Message[],
  links: readonly WiredLink[],
): RateLimits {
  const limits = new Map(messages.flatMap(decodeRateLimit));
  return new Map(
    links.flatMap(({ name, index }) => {
      const limit = limits.get(index);
      return limit === undefined ? [] : [[name, limit] as const];
    }),
  );
}

function isSameBucket(left: TokenBucket | undefined, right: TokenBucket | undefined): boolean {
  if (left === undefined || right === undefined) return left === right;
  // The kernel rounds the size of a bucket down to ticks.
  const roundingBytes = 2 + 2 * TICK_SECONDS * left.bytesPerSecond;
  return (
    left.bytesPerSecond === right.bytesPerSecond &&
    Math.abs(left.burstBytes - right.burstBytes) <= roundingBytes
  );
}

export function isSameRateLimit(
  left: RateLimit | undefined,
  right: RateLimit | undefined,
): boolean {
  if (left === undefined || right === undefined) return left === right;
  return (
    left.queueBytes === right.queueBytes &&
    isSameBucket(left.average, right.average) &&
    isSameBucket(left.peak, right.peak)
  );
}
