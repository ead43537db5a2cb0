// SPDX-License-Identifier: Apache-2.0
// What a guest may send, as rules at its tap. Why each: docs/design/guest-traffic.md.
import { IP_BITS, networkOf, parseIp, printAddress, type IpPrefix } from "@patchbay/api";
import { AppError, type SendGuard } from "@patchbay/core";

import type { Chain, Table, TableName } from "./table.ts";

/**
 * Frames that bridges and switches send to each other: 802.1D's reserved group (spanning tree, pauses, LACP, LLDP,
 * 802.1X) and Cisco's spanning tree.
 */
const BETWEEN_SWITCHES: readonly string[] = [
  "ether daddr & ff:ff:ff:ff:ff:f0 == 01:80:c2:00:00:00 drop",
  "ether daddr 01:00:0c:cc:cc:cd drop",
];
/** Answers of a DHCP server; a client only sends from 68 to 67. */
const DHCP_ANSWERS: readonly string[] = ["udp sport 67 drop", "udp dport 68 drop"];
/** Answers of a DHCPv6 server, and what only a router sends. */
const ROUTER_WORDS: readonly string[] = [
  "udp sport 547 drop",
  "udp dport 546 drop",
  "icmpv6 type nd-router-advert drop",
  "icmpv6 type nd-redirect drop",
];
/** ARP whose fields are where the rules look for them: Ethernet and IPv4. */
const PLAIN_ARP: readonly string[] = [
  "arp htype != 1 drop",
  "arp ptype != ip drop",
  "arp hlen != 6 drop",
  "arp plen != 4 drop",
];
/** QEMU announces a guest that has moved by RARP, which names MACs only. Source: QEMU net/announce.c */
const ANNOUNCEMENT = "ether type 0x8035 accept";
/** Tagged frames are on networks of their own, but for tag 0, which receivers take for none. */
const TAGGED: readonly string[] = ["ether type 8021ad drop", "vlan id 0 drop", "accept"];
/** The field of neighbour solicitations and advertisements. Source: RFC 4861, 4.3 and 4.4 */
const ND_TARGET = "@th,64";
const BYTE = 8;

/** The table of the tap of that name. */
export function guardNameOf(tapName: string): TableName {
  return { family: "netdev", name: `patchbay-${tapName}` };
}

/** Addresses as prefixes whose rest is zero: the way that nft prints them. */
function prefixesOf(addresses: readonly string[]): readonly IpPrefix[] {
  return addresses.map((text) => {
    const prefix = parseIp(text);
    if (prefix !== undefined && prefix.length > 0) return networkOf(prefix);
    throw new AppError("PODNET_FAILED", { message: `${JSON.stringify(text)} is no IP address` });
  });
}

function prefixText(prefix: IpPrefix): string {
  const isWhole = prefix.length === IP_BITS[prefix.version];
  return `${printAddress(prefix)}${isWhole ? "" : `/${String(prefix.length)}`}`;
}

/** The target is within the prefix; nft masks what ends within a byte. */
function targetMatch({ value, length }: IpPrefix): string {
  const bits = Math.ceil(length / BYTE) * BYTE;
  const hex = (number: bigint): string => `0x${number.toString(16)}`;
  const head = value >> BigInt(IP_BITS[6] - bits);
  const field = `${ND_TARGET},${String(bits)}`;
  if (bits === length) return `${field} ${hex(head)}`;
  const rest = BigInt(bits - length);
  const mask = ((1n << BigInt(length)) - 1n) << rest;
  return `${field} & ${hex(mask)} == ${hex(head)}`;
}

function arpChains(guard: SendGuard, own: readonly string[]): readonly Chain[] {
  const next = guard.addresses === undefined ? "accept" : "goto arp-address";
  const sender = guard.macs.map((mac) => `arp saddr ether ${mac} ${next}`);
  return [
    { name: "arp-sender", rules: [...PLAIN_ARP, ...sender] },
    {
      name: "arp-address",
      rules: [
        ...own.map((address) => `arp saddr ip ${address} accept`),
        // A probe for its own address; one for another's would keep that one from taking it. Source: RFC 5227, 2.1.1
        ...own.map((address) => `arp saddr ip 0.0.0.0 arp daddr ip ${address} accept`),
      ],
    },
  ];
}

function ipv4Chain(guard: SendGuard, own: readonly string[]): Chain {
  const servers = guard.serves ? [] : DHCP_ANSWERS;
  const sources = [
    ...own.map((address) => `ip saddr ${address} accept`),
    "ip saddr 0.0.0.0 udp dport 67 accept",
  ];
  const rest = guard.addresses === undefined ? ["accept"] : sources;
  return { name: "ipv4", rules: [...servers, ...rest] };
}

/** By number: names are looked up in /etc/protocols, which an image need not have. Source: RFC 4443, section 1. */
const ICMPV6 = "58";

/** What of IPv6 is judged by the address that it is about, beside the one that it comes from. */
const NEIGHBOUR_WORDS: readonly string[] = [
  "icmpv6 type nd-neighbor-advert goto nd-target",
  "ip6 saddr :: icmpv6 type nd-neighbor-solicit goto nd-target",
  `ip6 saddr :: meta l4proto ${ICMPV6} accept`,
  "goto ipv6-source",
];

function ipv6Chains(guard: SendGuard, own: readonly IpPrefix[]): readonly Chain[] {
  const servers = guard.serves ? [] : ROUTER_WORDS;
  const rest = guard.addresses === undefined ? ["accept"] : NEIGHBOUR_WORDS;
  return [
    { name: "ipv6", rules: [...servers, ...rest] },
    { name: "nd-target", rules: own.map((prefix) => `${targetMatch(prefix)} goto ipv6-source`) },
    {
      name: "ipv6-source",
      rules: [
        ...own.map((prefix) => `ip6 saddr ${prefixText(prefix)} accept`),
        "ip6 saddr :: icmpv6 type nd-neighbor-solicit accept",
      ],
    },
  ];
}

/** Frames enter the kernel here, before a bridge or an address sees them; what no rule lets through ends here. */
function entryChains(tapName: string, guard: SendGuard): readonly Chain[] {
  return [
    {
      name: "from-guest",
      hook: {
        type: "filter",
        at: `ingress device "${tapName}" priority filter`,
        policy: "drop",
      },
      rules: [...BETWEEN_SWITCHES, ...guard.macs.map((mac) => `ether saddr ${mac} goto of-guest`)],
    },
    {
      name: "of-guest",
      rules: [
        "ether type arp goto arp-sender",
        "ether type ip goto ipv4",
        "ether type ip6 goto ipv6",
        ANNOUNCEMENT,
        ...(guard.addresses === undefined ? TAGGED : []),
      ],
    },
  ];
}

/**
 * The table that holds a guest to what it may send. A rule of nft is for one address: sets would have to be kept free of
 * overlaps, and are printed in an order of the kernel's.
 */
export function guardTable(tapName: string, guard: SendGuard): Table {
  const own = prefixesOf(guard.addresses ?? []);
  const ipv4 = own.filter(({ version }) => version === 4).map(prefixText);
  const ipv6 = own.filter(({ version }) => version === 6);
  return {
    ...guardNameOf(tapName),
    chains: [
      ...entryChains(tapName, guard),
      ...arpChains(guard, ipv4),
      ipv4Chain(guard, ipv4),
      ...ipv6Chains(guard, ipv6),
    ],
  };
}
