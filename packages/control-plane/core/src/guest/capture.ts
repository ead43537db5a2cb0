// SPDX-License-Identifier: Apache-2.0
import type { ObjectKey } from "../interfaces/store.ts";
import { buildGuestPath, parseGuestPath } from "./requests.ts";
import { ByteQueue, joinedBytes } from "@patchbay/base";

export interface CaptureOptions {
  readonly interface: string;
  /** Expression in pcap-filter(7) syntax. The empty string selects all packets. */
  readonly filter: string;
  readonly seconds: number;
  readonly bytes: number;
}

export interface CaptureRequest {
  readonly stream: "capture";
  readonly options: CaptureOptions;
  readonly user: string;
}

export const CAPTURE = "capture";

export const CAPTURE_LIMITS = {
  seconds: { fallback: 60, min: 1, max: 3600 },
  bytes: { fallback: 16 * 1024 * 1024, min: 1024, max: 1024 * 1024 * 1024 },
} as const;

const FILTER_MAX = 1000;
const FIELDS = ["interface", "filter", "seconds", "bytes"] as const;

type QueryValues = ReadonlyMap<string, string>;

function parseValues(query: string): QueryValues | undefined {
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

function checkNumber(values: QueryValues, name: keyof typeof CAPTURE_LIMITS): string | undefined {
  const { min, max } = CAPTURE_LIMITS[name];
  const text = values.get(name);
  if (text === undefined) return undefined;
  const isValid = /^\d{1,10}$/.test(text) && Number(text) >= min && Number(text) <= max;
  return isValid
    ? undefined
    : `${name}: must be a whole number from ${String(min)} to ${String(max)}`;
}

function checkFilter(filter: string): string | undefined {
  if (filter.length > FILTER_MAX) {
    return `filter: must have at most ${String(FILTER_MAX)} characters`;
  }
  return /^[\x20-\x7e]*$/.test(filter) ? undefined : "filter: must be printable ASCII on one line";
}

function listProblems(values: QueryValues): readonly string[] {
  const known: readonly string[] = FIELDS;
  const unknown = [...values.keys()].filter((name) => !known.includes(name));
  const isNamed = (values.get("interface") ?? "") !== "";
  return [
    isNamed ? undefined : "interface: must name an interface of the VM",
    checkFilter(values.get("filter") ?? ""),
    checkNumber(values, "seconds"),
    checkNumber(values, "bytes"),
    ...unknown.map((name) => `${name}: is not known; known are ${known.join(", ")}`),
  ].filter((problem) => problem !== undefined);
}

export function parseCaptureQuery(
  query: string,
): { readonly options: CaptureOptions } | { readonly problems: readonly string[] } {
  const values = parseValues(query);
  if (values === undefined) return { problems: ["query: is not encoded as a URL's query"] };
  const problems = listProblems(values);
  if (problems.length > 0) return { problems };
  const parseNumberField = (name: keyof typeof CAPTURE_LIMITS): number =>
    Number(values.get(name) ?? CAPTURE_LIMITS[name].fallback);
  return {
    options: {
      interface: values.get("interface") ?? "",
      filter: values.get("filter") ?? "",
      seconds: parseNumberField("seconds"),
      bytes: parseNumberField("bytes"),
    },
  };
}

export function printCaptureQuery(options: CaptureOptions): string {
  return FIELDS.map((name) => `${name}=${encodeURIComponent(String(options[name]))}`).join("&");
}

export function buildCapturePath(key: ObjectKey, { options, user }: CaptureRequest): string {
  const path = buildGuestPath(key, CAPTURE);
  return `${path}/${encodeURIComponent(user)}?${printCaptureQuery(options)}`;
}

export function parseCapturePath(
  url: string,
): (CaptureRequest & { readonly key: Required<ObjectKey> }) | undefined {
  const [path = "", query = ""] = url.split("?");
  const separator = path.lastIndexOf("/");
  const { key, subresource } = parseGuestPath(path.slice(0, separator)) ?? {};
  if (key === undefined || subresource !== CAPTURE) return undefined;
  const parsed = parseCaptureQuery(query);
  if (!("options" in parsed)) return undefined;
  const user = decodeURIComponent(path.slice(separator + 1));
  return { key, stream: CAPTURE, options: parsed.options, user };
}

const FILE_HEADER_BYTES = 24;
const PACKET_HEADER_BYTES = 16;
const LENGTH_OFFSET = 8;

function readPacketLength({ buffer, byteOffset }: Uint8Array): number {
  return new DataView(buffer, byteOffset).getUint32(LENGTH_OFFSET, true);
}

interface LimitedPackets {
  readonly bytes: readonly Uint8Array[];
  readonly isFull: boolean;
}

/** Limits the size of a little-endian pcap stream without splitting packets. */
export class PacketLimiter {
  readonly #received = new ByteQueue();
  #remainingBytes: number;
  #header: Uint8Array | undefined;
  #hasFileHeader = false;

  constructor(maxBytes: number) {
    this.#remainingBytes = maxBytes;
  }

  add(bytes: Uint8Array): LimitedPackets {
    this.#received.push(bytes);
    const passed: Uint8Array[] = [];
    for (;;) {
      this.#header ??= this.#received.take(
        this.#hasFileHeader ? PACKET_HEADER_BYTES : FILE_HEADER_BYTES,
      );
      if (this.#header === undefined) return { bytes: passed, isFull: false };
      const length = this.#hasFileHeader ? readPacketLength(this.#header) : 0;
      if (this.#header.length + length > this.#remainingBytes)
        return { bytes: passed, isFull: true };
      const packet = this.#received.take(length);
      if (packet === undefined) return { bytes: passed, isFull: false };
      passed.push(joinedBytes([this.#header, packet]));
      this.#remainingBytes -= this.#header.length + length;
      this.#hasFileHeader = true;
      this.#header = undefined;
    }
  }
}
