// SPDX-License-Identifier: Apache-2.0
// Which addresses are good on one link only, and which of them belongs to a MAC?
import { IP_BITS, isWithin, parseIp, printAddress } from "./ip.ts";

/** Source: RFC 3927; RFC 4291, 2.5.6. */
const SCOPES = ["169.254.0.0/16", "fe80::/10"].flatMap((text) => parseIp(text) ?? []);
/** Bits of an IPv6 address below the prefix. */
const INTERFACE_BITS = 64n;
const LINK_LOCAL = 0xfe80n << 112n;

/** Whether an address, with or without a prefix, is good on its link only. */
export function isLinkLocal(text: string): boolean {
  const ip = parseIp(text);
  if (ip === undefined) return false;
  const address = { ...ip, length: IP_BITS[ip.version] };
  return SCOPES.some((scope) => isWithin(address, scope));
}

/** The IPv6 address that whoever has the MAC makes of it on every link. Source: RFC 4291, appendix A */
export function linkLocalOf(mac: string): string {
  const bytes = mac.split(":").map((pair) => Number.parseInt(pair, 16));
  const [first = 0, ...rest] = bytes;
  const identifier = [first ^ 0x02, ...rest.slice(0, 2), 0xff, 0xfe, ...rest.slice(2)];
  const low = identifier.reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
  return printAddress({ version: 6, value: LINK_LOCAL | (low & ((1n << INTERFACE_BITS) - 1n)) });
}
