// SPDX-License-Identifier: Apache-2.0
// IP addresses, and prefixes of them, as people write them.

/** An address with a length of prefix; the whole address where none is written. */
export interface IpPrefix {
  readonly version: 4 | 6;
  /** The address as a number. */
  readonly value: bigint;
  /** Bits. */
  readonly length: number;
}

/** Bits of an address. */
export const IP_BITS = { 4: 32, 6: 128 } as const;
/** Of an IPv6 address as text. */
const GROUPS = 8;
const GROUP_BITS = 16;

function parseIpv4(text: string): bigint | undefined {
  const bytes = text.split(".");
  const areBytes = bytes.every((byte) => /^(0|[1-9]\d{0,2})$/.test(byte) && Number(byte) < 256);
  if (bytes.length !== 4 || !areBytes) return undefined;
  return bytes.reduce((sum, byte) => sum * 256n + BigInt(byte), 0n);
}

/** Groups of one side of `::`; its last may be an IPv4 address. */
function groupsOf(side: string): readonly string[] | undefined {
  if (side === "") return [];
  const groups = side.split(":");
  const last = groups.at(-1) ?? "";
  const embedded = last.includes(".") ? parseIpv4(last) : undefined;
  if (embedded !== undefined) {
    groups.splice(-1, 1, (embedded >> 16n).toString(16), (embedded & 0xffffn).toString(16));
  }
  return groups.every((group) => /^[0-9a-f]{1,4}$/i.test(group)) ? groups : undefined;
}

function parseIpv6(text: string): bigint | undefined {
  const [left = "", right, ...more] = text.split("::");
  const [head, tail] = [groupsOf(left), groupsOf(right ?? "")];
  if (head === undefined || tail === undefined || more.length > 0) return undefined;
  const missing = GROUPS - head.length - tail.length;
  if (right === undefined ? missing !== 0 : missing < 1) return undefined;
  const groups = [...head, ...Array.from({ length: missing }, () => "0"), ...tail];
  return groups.reduce((sum, group) => (sum << 16n) | BigInt(`0x${group}`), 0n);
}

/** Reads ADDRESS or ADDRESS/LENGTH; undefined when it is malformed. */
export function parseIp(text: string): IpPrefix | undefined {
  const [address = "", length, ...more] = text.split("/");
  const version = address.includes(":") ? 6 : 4;
  const value = version === 4 ? parseIpv4(address) : parseIpv6(address);
  const bits = IP_BITS[version];
  if (value === undefined || more.length > 0) return undefined;
  if (length === undefined) return { version, value, length: bits };
  const isLength = /^(0|[1-9]\d{0,2})$/.test(length) && Number(length) <= bits;
  return isLength ? { version, value, length: Number(length) } : undefined;
}

/** The longest run of at least two groups of zeros, the first of equals. Source: RFC 5952, 4.2 */
function zerosIn(groups: readonly string[]): { readonly at: number; readonly count: number } {
  let longest = { at: 0, count: 1 };
  for (let at = 0; at < groups.length; at += 1) {
    const rest = groups.slice(at);
    const end = rest.findIndex((group) => group !== "0");
    const count = end < 0 ? rest.length : end;
    if (count > longest.count) longest = { at, count };
  }
  return longest;
}

function printIpv6(value: bigint): string {
  const groups = Array.from({ length: GROUPS }, (_none, at) =>
    ((value >> BigInt(GROUP_BITS * (GROUPS - 1 - at))) & 0xffffn).toString(16),
  );
  const { at, count } = zerosIn(groups);
  if (count < 2) return groups.join(":");
  return `${groups.slice(0, at).join(":")}::${groups.slice(at + count).join(":")}`;
}

/** The address alone, as the kernel prints it. */
export function printAddress({ version, value }: Omit<IpPrefix, "length">): string {
  if (version === 6) return printIpv6(value);
  return [24n, 16n, 8n, 0n].map((shift) => ((value >> shift) & 0xffn).toString()).join(".");
}

/** The first address of the prefix: the rest of its bits are zero. */
export function networkOf({ version, value, length }: IpPrefix): IpPrefix {
  const rest = BigInt(IP_BITS[version] - length);
  return { version, value: (value >> rest) << rest, length };
}

/** Whether an address is within a prefix. */
export function isWithin(address: IpPrefix, prefix: IpPrefix): boolean {
  if (address.version !== prefix.version || address.length < prefix.length) return false;
  return networkOf({ ...address, length: prefix.length }).value === networkOf(prefix).value;
}
