// SPDX-License-Identifier: Apache-2.0

const PAIRS_SYNTAX = /^[0-9a-f]{2}([:-][0-9a-f]{2})*$/i;
const QUADS_SYNTAX = /^[0-9a-f]{4}(\.[0-9a-f]{4})*$/i;
/** Valid lengths in bytes: EUI-48, EUI-64, IP over InfiniBand. Source: Go net.ParseMAC. */
const VALID_LENGTHS: readonly number[] = [6, 8, 20];
/** Length of an Ethernet address in bytes. Source: linux/if_ether.h ETH_ALEN. */
export const MAC_BYTES = 6;

/** Parses the colon, dash or dot form into lower-case pairs; undefined for malformed text. Source: Go net.ParseMAC. */
export function parseMac(text: string): readonly string[] | undefined {
  const separators = new Set(text.replace(/[0-9a-f]/gi, ""));
  if (separators.size !== 1 || !(PAIRS_SYNTAX.test(text) || QUADS_SYNTAX.test(text)))
    return undefined;
  const pairs =
    text
      .toLowerCase()
      .replace(/[^0-9a-f]/g, "")
      .match(/../g) ?? [];
  return VALID_LENGTHS.includes(pairs.length) ? pairs : undefined;
}

/** Returns the address in lower case with colons. Malformed text is only converted to lower case. */
export function normalizeMac(text: string): string {
  return parseMac(text)?.join(":") ?? text.toLowerCase();
}

/** Checks the group bit, which is set in multicast addresses. Source: IEEE 802, I/G bit. */
export function isMulticastMac(pairs: readonly string[]): boolean {
  return (parseInt(pairs[0] ?? "00", 16) & 1) === 1;
}

/** Checks whether a NIC can have this address. Only unicast Ethernet addresses are possible. */
export function isNicMac(text: string): boolean {
  const pairs = parseMac(text);
  return pairs?.length === MAC_BYTES && !isMulticastMac(pairs);
}
