// SPDX-License-Identifier: Apache-2.0
// What of the words of a guest's agent can be shown. The guest is hostile.
import {
  IP_BITS,
  isWithin,
  normalizeMac,
  parseIp,
  parseMac,
  printAddress,
  type IpPrefix,
} from "@patchbay/api";

/** A NIC as the guest's agent tells it: the guest's word. */
export interface GuestNic {
  readonly name: string;
  readonly mac: string;
  /** Without a prefix. */
  readonly addresses: readonly string[];
}

/** A link of the guest that can be shown: a NIC of the VM's, or one of the guest's own. */
export interface GuestLink {
  /** Lower case, with colons; absent where it has none. */
  readonly mac?: string;
  /** Absent where it cannot be shown. */
  readonly name?: string;
  /** In the order of the guest, without repetition. */
  readonly ipv4: readonly string[];
  readonly ipv6: readonly string[];
}

/** Longest name that is shown. Linux has 15 characters, Windows up to 255. Source: linux/if.h IFNAMSIZ; MIB_IF_ROW2. */
const NAME_MAX = 255;
/** Addresses of one family that are shown of a link. */
const ADDRESSES_MAX = 16;
/** The loopback of Linux, which nobody asks about. Source: KubeVirt agent-poller. */
const LOOPBACK = "lo";
const NO_MAC = /^(?:00:)*00$/;

function nameOf({ name }: GuestNic): string | undefined {
  const isPrintable = name !== "" && name.length <= NAME_MAX && !/\p{Cc}|\p{Cf}/u.test(name);
  return isPrintable ? name : undefined;
}

function macOf({ mac }: GuestNic): string | undefined {
  const normal = normalizeMac(mac);
  return parseMac(mac) === undefined || NO_MAC.test(normal) ? undefined : normal;
}

function prefixesOf(...texts: readonly string[]): readonly IpPrefix[] {
  return texts.flatMap((text) => parseIp(text) ?? []);
}

/** Nobody can be reached by these: none, the guest itself, groups, IPv4 in disguise. Source: RFC 6890; RFC 4291, 2.5 and 2.7. */
const OF_NOBODY = prefixesOf("0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/3", "::/80", "ff00::/8");

function isOneOf(address: IpPrefix, prefixes: readonly IpPrefix[]): boolean {
  return prefixes.some((prefix) => isWithin(address, prefix));
}

/** The address that a text is; a prefix is none. */
function parseAddress(text: string): IpPrefix | undefined {
  const address = parseIp(text);
  return address?.length === IP_BITS[address?.version ?? 4] ? address : undefined;
}

function addressesOf(nics: readonly GuestNic[], version: 4 | 6): readonly string[] {
  const texts = nics
    .flatMap(({ addresses }) => addresses)
    .flatMap((text) => parseAddress(text) ?? [])
    .filter((address) => address.version === version && !isOneOf(address, OF_NOBODY))
    .map(printAddress);
  return [...new Set(texts)].slice(0, ADDRESSES_MAX);
}

/** Several links of the guest with one MAC are shown as one: the NIC, its aliases, and the bridge, the bond or the VLAN on it. */
function keyOf(nic: GuestNic): string {
  const mac = macOf(nic);
  return mac === undefined ? `name ${nic.name}` : `mac ${mac}`;
}

function linkOf(nics: readonly GuestNic[]): GuestLink {
  const mac = nics.flatMap((nic) => macOf(nic) ?? [])[0];
  // The agent tells links in the order in which they were made: the NIC before what is built on it.
  const name = nics.flatMap((nic) => nameOf(nic) ?? [])[0];
  return {
    ...(mac === undefined ? {} : { mac }),
    ...(name === undefined ? {} : { name }),
    ipv4: addressesOf(nics, 4),
    ipv6: addressesOf(nics, 6),
  };
}

function isWorthShowing({ mac, name, ipv4, ipv6 }: GuestLink): boolean {
  return mac !== undefined || (name !== undefined && ipv4.length + ipv6.length > 0);
}

/** What can be shown of an answer of the guest's agent, in its order; one link for each MAC. */
export function readGuestLinks(answer: readonly GuestNic[]): readonly GuestLink[] {
  const byKey = Map.groupBy(
    answer.filter(({ name }) => name !== LOOPBACK),
    keyOf,
  );
  return [...byKey.values()].map(linkOf).filter(isWorthShowing);
}
