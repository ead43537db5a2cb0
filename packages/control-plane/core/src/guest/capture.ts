// SPDX-License-Identifier: Apache-2.0
import type { ObjectKey } from "../interfaces/store.ts";
import { guestPath, parseGuestPath } from "./requests.ts";
import { joinedBytes } from "@patchbay/base";

export interface CaptureOptions {
  readonly interface: string;
  /** Expression of pcap-filter(7). An empty one selects all packets. */
  readonly filter: string;
  readonly seconds: number;
  readonly bytes: number;
}

export interface CaptureRequest {
  readonly stream: "capture";
  readonly order: CaptureOptions;
  readonly user: string;
}

export const CAPTURE = "capture";

export const CAPTURE_LIMITS = {
  seconds: { fallback: 60, least: 1, most: 3600 },
  bytes: { fallback: 16 * 1024 * 1024, least: 1024, most: 1024 * 1024 * 1024 },
} as const;

const FILTER_MAX = 1000;
const FIELDS = ["interface", "filter", "seconds", "bytes"] as const;

type Values = ReadonlyMap<string, string>;

function parseValues(query: string): Values | undefined {
  const parts = query.split("&").filter((part) => part !== "");
  try {
    return new Map(
      parts.map((part) => {
        const [name = "", ...value] = part.split("=");
        return [name, decodeURIComponent(value.join("=").replaceAll("+", " "))];
      }),
    );
  } catch {
    return undefined;
  }
}

function numberProblem(values: Values, name: keyof typeof CAPTURE_LIMITS): string | undefined {
  const { least, most } = CAPTURE_LIMITS[name];
  const text = values.get(name);
  if (text === undefined) return undefined;
  const isValid = /^\d{1,10}$/.test(text) && Number(text) >= least && Number(text) <= most;
  return isValid
    ? undefined
    : `${name}: must be a whole number from ${String(least)} to ${String(most)}`;
}

function filterProblem(filter: string): string | undefined {
  if (filter.length > FILTER_MAX) {
    return `filter: must have at most ${String(FILTER_MAX)} characters`;
  }
  return /^[\x20-\x7e]*$/.test(filter) ? undefined : "filter: must be printable ASCII on one line";
}

function listProblems(values: Values): readonly string[] {
  const known: readonly string[] = FIELDS;
  const unknown = [...values.keys()].filter((name) => !known.includes(name));
  const isNamed = (values.get("interface") ?? "") !== "";
  return [
    isNamed ? undefined : "interface: must name an interface of the VM",
    filterProblem(values.get("filter") ?? ""),
    numberProblem(values, "seconds"),
    numberProblem(values, "bytes"),
    ...unknown.map((name) => `${name}: is not known; known are ${known.join(", ")}`),
  ].filter((problem) => problem !== undefined);
}

export function parseCaptureQuery(
  query: string,
): { readonly order: CaptureOptions } | { readonly problems: readonly string[] } {
  const values = parseValues(query);
  if (values === undefined) return { problems: ["query: is not encoded as a URL's query"] };
  const problems = listProblems(values);
  if (problems.length > 0) return { problems };
  const parseNumberField = (name: keyof typeof CAPTURE_LIMITS): number =>
    Number(values.get(name) ?? CAPTURE_LIMITS[name].fallback);
  return {
    order: {
      interface: values.get("interface") ?? "",
      filter: values.get("filter") ?? "",
      seconds: parseNumberField("seconds"),
      bytes: parseNumberField("bytes"),
    },
  };
}

export function printCaptureQuery(order: CaptureOptions): string {
  return FIELDS.map((name) => `${name}=${encodeURIComponent(String(order[name]))}`).join("&");
}

export function capturePath(key: ObjectKey, { order, user }: CaptureRequest): string {
  const path = guestPath(key, CAPTURE);
  return `${path}/${encodeURIComponent(user)}?${printCaptureQuery(order)}`;
}

export function parseCapturePath(
  url: string,
): (CaptureRequest & { readonly key: Required<ObjectKey> }) | undefined {
  const [path = "", query = ""] = url.split("?");
  const at = path.lastIndexOf("/");
  const { key, what } = parseGuestPath(path.slice(0, at)) ?? {};
  if (key === undefined || what !== CAPTURE) return undefined;
  const parsed = parseCaptureQuery(query);
  if (!("order" in parsed)) return undefined;
  const user = decodeURIComponent(path.slice(at + 1));
  return { key, stream: CAPTURE, order: parsed.order, user };
}

const FILE_HEADER_BYTES = 24;
const PACKET_HEADER_BYTES = 16;
const LENGTH_OFFSET = 8;

interface LimitedPackets {
  readonly bytes: readonly Uint8Array[];
  readonly isFull: boolean;
}

/** Passes whole packets of a pcap stream up to a limit. Expects little endian, which x86 and arm64 use. */
export class PacketLimiter {
  #remainingBytes: number;
  #pending: Uint8Array = new Uint8Array(0);
  #hasHeader = false;

  constructor(maxBytes: number) {
    this.#remainingBytes = maxBytes;
  }

  add(bytes: Uint8Array): LimitedPackets {
    this.#pending = joinedBytes([this.#pending, bytes]);
    const passed: Uint8Array[] = [];
    for (;;) {
      const length = this.#nextLength();
      if (length === undefined || length > this.#pending.length) {
        return { bytes: passed, isFull: false };
      }
      if (length > this.#remainingBytes) return { bytes: passed, isFull: true };
      passed.push(this.#pending.subarray(0, length));
      this.#pending = this.#pending.subarray(length);
      this.#remainingBytes -= length;
      this.#hasHeader = true;
    }
  }

  /** Returns the bytes of the file's header, or of the next packet with its header. Undefined until the length is known. */
  #nextLength(): number | undefined {
    if (!this.#hasHeader) return FILE_HEADER_BYTES;
    if (this.#pending.length < PACKET_HEADER_BYTES) return undefined;
    const { buffer, byteOffset } = this.#pending;
    const length = new DataView(buffer, byteOffset).getUint32(LENGTH_OFFSET, true);
    return PACKET_HEADER_BYTES + length;
  }
}
