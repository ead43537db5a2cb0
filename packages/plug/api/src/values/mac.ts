// SPDX-License-Identifier: Apache-2.0
// MAC addresses as people write them. Source: Go net.ParseMAC, which KubeVirt uses.

const PAIRS = /^[0-9a-f]{2}([:-][0-9a-f]{2})*$/i;
const QUADS = /^[0-9a-f]{4}(\.[0-9a-f]{4})*$/i;
/** Lengths in bytes that name a MAC: EUI-48, EUI-64, IP over InfiniBand. Source: Go net.ParseMAC. */
const LENGTHS: readonly number[] = [6, 8, 20];
/** Bytes of an Ethernet address. Source: linux/if_ether.h ETH_ALEN. */
export const MAC_BYTES = 6;

/** Reads a MAC in colon, dash or dot form into lower-case pairs; undefined when it is malformed. */
export function parseMac(text: string): readonly string[] | undefined {
  const separators = new Set(text.replace(/[0-9a-f]/gi, ""));
  if (separators.size !== 1 || !(PAIRS.test(text) || QUADS.test(text))) return undefined;
  const pairs =
    text
      .toLowerCase()
      .replace(/[^0-9a-f]/g, "")
      .match(/../g) ?? [];
  return LENGTHS.includes(pairs.length) ? pairs : undefined;
}

/** The one form in which MACs are compared: lower case, with colons; what is malformed stays as it is. */
export function normalizeMac(text: string): string {
  return parseMac(text)?.join(":") ?? text.toLowerCase();
}

/** Whether the address belongs to a group; no NIC can have it as its own. Source: IEEE 802, I/G bit. */
export function isMulticastMac(pairs: readonly string[]): boolean {
  return (parseInt(pairs[0] ?? "00", 16) & 1) === 1;
}

/** Whether a NIC can have the address as its own: it is of Ethernet, and no group's. */
export function isNicMac(text: string): boolean {
  const pairs = parseMac(text);
  return pairs?.length === MAC_BYTES && !isMulticastMac(pairs);
}
