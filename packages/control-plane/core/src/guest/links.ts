// SPDX-License-Identifier: Apache-2.0
// Sanitizes the links that the guest agent reports, because the guest is not trusted.
import {
  IP_BITS,
  isWithin,
  normalizeMac,
  parseIp,
  parseMac,
  printAddress,
  type IpPrefix,
} from "@patchbay/api/values";
import { isPrintable } from "./details.ts";

/** A NIC from the guest agent's reply. Its values are not trusted. */
export interface GuestNic {
  readonly name: string;
  readonly mac: string;
  /** Addresses without prefix lengths. */
  readonly addresses: readonly string[];
}

/** A sanitized link: a NIC of the VM, or a link that the guest created. */
export interface GuestLink {
  readonly mac?: string;
  readonly name?: string;
  readonly ipv4: readonly string[];
  readonly ipv6: readonly string[];
}

const ADDRESSES_MAX = 16;
/** Name of the Linux loopback link, which is skipped. Source: KubeVirt agent-poller. */
const LOOPBACK = "lo";
const NO_MAC = /^(?:00:)*00$/;

function readName({ name }: GuestNic): string | undefined {
  return isPrintable(name) ? name : undefined;
}

function readMac({ mac }: GuestNic): string | undefined {
  const normal = normalizeMac(mac);
  return parseMac(mac) === undefined || NO_MAC.test(normal) ? undefined : normal;
}

function parsePrefixes(...texts: readonly string[]): readonly IpPrefix[] {
  return texts.flatMap((text) => parseIp(text) ?? []);
}

/** Addresses that no remote host can have: unspecified, loopback, multicast, reserved, IPv4-mapped. Source: RFC 6890; RFC 4291. */
const UNREACHABLE_PREFIXES = parsePrefixes(
  "0.0.0.0/8",
  "127.0.0.0/8",
  "224.0.0.0/3",
  "::/80",
  "ff00::/8",
);

/** Checks whether a remote host can have the address. */
export function isHostAddress(address: IpPrefix): boolean {
  return !UNREACHABLE_PREFIXES.some((prefix) => isWithin(address, prefix));
}

function parseAddress(text: string): IpPrefix | undefined {
  const address = parseIp(text);
  return address?.length === IP_BITS[address?.version ?? 4] ? address : undefined;
}

function readAddresses(nics: readonly GuestNic[], version: 4 | 6): readonly string[] {
  const texts = nics
    .flatMap(({ addresses }) => addresses)
    .flatMap((text) => parseAddress(text) ?? [])
    .filter((address) => address.version === version && isHostAddress(address))
    .map(printAddress);
  return [...new Set(texts)].slice(0, ADDRESSES_MAX);
}

/** Returns a key that all links with one MAC share, such as a NIC and a bridge on it. A link without a MAC gets a separate key. */
function buildGroupKey(nic: GuestNic): string {
  const mac = readMac(nic);
  return mac === undefined ? `name ${nic.name}` : `mac ${mac}`;
}

function mergeNics(nics: readonly GuestNic[]): GuestLink {
  const mac = nics.flatMap((nic) => readMac(nic) ?? [])[0];
  // The agent lists links in the order of creation, so the first name is the NIC's. Bridges and VLANs on the NIC come later.
  const name = nics.flatMap((nic) => readName(nic) ?? [])[0];
  return {
    ...(mac === undefined ? {} : { mac }),
    ...(name === undefined ? {} : { name }),
    ipv4: readAddresses(nics, 4),
    ipv6: readAddresses(nics, 6),
  };
}

function isUseful({ mac, name, ipv4, ipv6 }: GuestLink): boolean {
  return mac !== undefined || (name !== undefined && ipv4.length + ipv6.length > 0);
}

export function readGuestLinks(answer: readonly GuestNic[]): readonly GuestLink[] {
  const byKey = Map.groupBy(
    answer.filter(({ name }) => name !== LOOPBACK),
    buildGroupKey,
  );
  return [...byKey.values()].map(mergeNics).filter(isUseful);
}
