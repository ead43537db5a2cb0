// SPDX-License-Identifier: Apache-2.0
// IP addresses and prefixes.
import ipaddr from "ipaddr.js";

const { IPv4, IPv6, fromByteArray } = ipaddr;

export interface IpPrefix {
  readonly version: 4 | 6;
  readonly value: bigint;
  /** Prefix length in bits; 32 or 128 for an address without prefix length. */
  readonly length: number;
}

export const IP_BITS = { 4: 32, 6: 128 } as const;

function toBigInt(bytes: readonly number[]): bigint {
  return bytes.reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
}

/** Parses IPv4. Rejects `1.2`, `0x1.2.3.4` and `010.0.0.1`, which ipaddr.js accepts but other parsers read differently. */
function parseIpv4(text: string): bigint | undefined {
  return IPv4.isValidFourPartDecimal(text) ? toBigInt(IPv4.parse(text).toByteArray()) : undefined;
}

/**
 * Replaces an embedded IPv4 address with two IPv6 groups, because ipaddr.js would parse `::192.0.2.1` as `::ffff:192.0.2.1`, and `010` as
 * 8. Returns undefined if the embedded address is malformed.
 */
function withoutIpv4(text: string): string | undefined {
  if (!text.includes(".")) return text;
  const index = text.lastIndexOf(":") + 1;
  const embedded = parseIpv4(text.slice(index));
  if (embedded === undefined) return undefined;
  return `${text.slice(0, index)}${(embedded >> 16n).toString(16)}:${(embedded & 0xffffn).toString(16)}`;
}

/** Parses IPv6. Rejects zone identifiers, which are valid on one host only. */
function parseIpv6(text: string): bigint | undefined {
  const hexOnly = text.includes("%") ? undefined : withoutIpv4(text);
  const isAddress = hexOnly !== undefined && IPv6.isValid(hexOnly);
  return isAddress ? toBigInt(IPv6.parse(hexOnly).toByteArray()) : undefined;
}

/** Parses ADDRESS or ADDRESS/LENGTH. Returns undefined for malformed text. */
export function parseIp(text: string): IpPrefix | undefined {
  const [address = "", length, ...extraParts] = text.split("/");
  const version = address.includes(":") ? 6 : 4;
  const value = version === 4 ? parseIpv4(address) : parseIpv6(address);
  const bits = IP_BITS[version];
  if (value === undefined || extraParts.length > 0) return undefined;
  if (length === undefined) return { version, value, length: bits };
  const isLength = /^(0|[1-9]\d{0,2})$/.test(length) && Number(length) <= bits;
  return isLength ? { version, value, length: Number(length) } : undefined;
}

/** Parses like {@link parseIp}, but accepts leading zeros in IPv4, for example `10.010.0.1`. Source: k8s.io/utils/net ParseIPSloppy */
export function parseSloppyIp(text: string): IpPrefix | undefined {
  return parseIp(text.includes(":") ? text : text.replaceAll(/(^|\.)0+(?=\d)/g, "$1"));
}

/** Prints the address without prefix length. The IPv6 form follows RFC 5952, without embedded IPv4. */
export function printAddress({ version, value }: Omit<IpPrefix, "length">): string {
  const bits = IP_BITS[version];
  const bytes = Array.from({ length: bits / 8 }, (_byte, index) =>
    Number((value >> BigInt(bits - 8 * (index + 1))) & 0xffn),
  );
  return fromByteArray(bytes).toString();
}

export function toNetworkAddress({ version, value, length }: IpPrefix): IpPrefix {
  const hostBits = BigInt(IP_BITS[version] - length);
  return { version, value: (value >> hostBits) << hostBits, length };
}

export function isWithin(address: IpPrefix, prefix: IpPrefix): boolean {
  if (address.version !== prefix.version || address.length < prefix.length) return false;
  return (
    toNetworkAddress({ ...address, length: prefix.length }).value === toNetworkAddress(prefix).value
  );
}

export function isAddressWithin(text: string, prefixes: readonly IpPrefix[]): boolean {
  const ip = parseIp(text);
  if (ip === undefined) return false;
  const address = { ...ip, length: IP_BITS[ip.version] };
  return prefixes.some((prefix) => isWithin(address, prefix));
}

/** Source: RFC 3927; RFC 4291, 2.5.6. */
const LINK_LOCAL_PREFIXES = ["169.254.0.0/16", "fe80::/10"].flatMap((text) => parseIp(text) ?? []);
const INTERFACE_BITS = 64n;
const LINK_LOCAL_BASE = 0xfe80n << 112n;

export function isLinkLocal(text: string): boolean {
  return isAddressWithin(text, LINK_LOCAL_PREFIXES);
}

/** Derives the IPv6 link-local address of a MAC (modified EUI-64). Source: RFC 4291, appendix A */
export function toLinkLocal(mac: string): string {
  const bytes = mac.split(":").map((pair) => Number.parseInt(pair, 16));
  const [first = 0, ...hostBits] = bytes;
  const identifier = [first ^ 0x02, ...hostBits.slice(0, 2), 0xff, 0xfe, ...hostBits.slice(2)];
  const interfaceId = identifier.reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
  return printAddress({
    version: 6,
    value: LINK_LOCAL_BASE | (interfaceId & ((1n << INTERFACE_BITS) - 1n)),
  });
}

// Default subnets of masquerade. Source: KubeVirt pkg/network/link/address.go, api DefaultVMCIDR.

const DEFAULT_SUBNETS = { 4: "10.0.2.0/24", 6: "fd10:0:2::/120" } as const;
/** Minimum number of host bits, enough for the network address, the gateway and the guest. */
const HOST_BITS_MIN = 2;

/**
 * Parses a masquerade subnet; unset or empty means KubeVirt's default. Returns undefined if it is malformed, too small or not of `version`.
 */
export function parseNatPrefix(cidr: string | undefined, version: 4 | 6): IpPrefix | undefined {
  const prefix = parseSloppyIp(cidr === undefined || cidr === "" ? DEFAULT_SUBNETS[version] : cidr);
  if (prefix?.version !== version) return undefined;
  return prefix.length <= IP_BITS[version] - HOST_BITS_MIN ? prefix : undefined;
}
