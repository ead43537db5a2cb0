// SPDX-License-Identifier: Apache-2.0
// What a guest may send, as rules at its tap. Why each: docs/design/guest-traffic.md.
import { IP_BITS, networkOf, parseIp, printAddress, type IpPrefix } from "@patchbay/api";
import { AppError, type SendGuard } from "@patchbay/core";

import type { Chain, Table, TableName } from "./table.ts";

/**
 * Frames that bridges and switches send to each other: 802.1D's reserved group (spanning tree, pauses, LACP, LLDP,
 * 802.1X), and Cisco's (CDP, VTP, DTP, UDLD; spanning tree).
 */
const BETWEEN_SWITCHES: readonly string[] = [
  "ether daddr & ff:ff:ff:ff:ff:f0 == 01:80:c2:00:00:00 drop",
  "ether daddr 01:00:0c:cc:cc:cc drop",
  "ether daddr 01:00:0c:cc:cc:cd drop",
];
/** Answers of a DHCP server (a client only sends from 68 to 67), and what only a multicast router asks. */
const SERVER_WORDS_4: readonly string[] = [
  "udp sport 67 drop",
  "udp dport 68 drop",
  "meta protocol ip igmp type membership-query drop",
];
/** Answers of a DHCPv6 server, and what only a router sends. */
const SERVER_WORDS_6: readonly string[] = [
  "udp sport 547 drop",
  "udp dport 546 drop",
  "icmpv6 type nd-router-advert drop",
  "icmpv6 type nd-redirect drop",
  "icmpv6 type mld-listener-query drop",
];
/** ARP whose fields are where the rules look for them: Ethernet and IPv4. */
const PLAIN_ARP: readonly string[] = [
  "arp htype != 1 drop",
  "arp ptype != ip drop",
  "arp hlen != 6 drop",
  "arp plen != 4 drop",
];
/** Head of a RARP request of Ethernet for IPv4, as a number. Source: RFC 903; RFC 826 */
const RARP_REQUEST = "1080006040003";
/** Any other RARP is false. Tagged frames are on networks of their own, but for tag 0, which receivers take for none. */
const OTHERS: readonly string[] = [
  "ether type 0x8035 drop",
  "ether type 8021ad drop",
  "vlan id 0 drop",
  "accept",
];
/** Bytes before the options. Source: RFC 4861, 4.1, 4.3 and 4.4 */
const ND_BYTES = { solicitsRouter: 8, solicits: 24, advertises: 24 } as const;
/** Link-layer address of the sender, and of the target: type and length. Source: RFC 4861, 4.6.1 */
const LINK_LAYER = { source: "101", target: "201" } as const;
const OPTION_BYTES = 8;
/** A number that tells a probe of one's own from others', alone in it. Source: RFC 7527, 4.1; RFC 3971, 5.3.2 */
const NONCE = "0xe";
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

/** A MAC as nft prints a number. */
function macNumber(mac: string): string {
  return BigInt(`0x${mac.replaceAll(":", "")}`).toString(16);
}

function macDigits(mac: string): string {
  return mac.replaceAll(":", "").toLowerCase();
}

/** QEMU announces a guest that has moved by RARP, which names MACs only. Source: QEMU net/announce.c */
function announcement(mac: string): string {
  return `ether type 0x8035 @nh,0,112 0x${RARP_REQUEST}${macDigits(mac)} @nh,144,48 0x${macNumber(mac)} accept`;
}

/** A word of neighbour discovery names no other MAC than the guest's: it has no option, or one, which can be read. */
function optionRules(
  guard: SendGuard,
  { bytes, option }: { readonly bytes: number; readonly option: string },
  next: string,
): readonly string[] {
  const [whole, at] = [String(bytes + OPTION_BYTES), String(bytes * BYTE)];
  return [
    `ip6 length ${String(bytes)} ${next}`,
    ...guard.macs.map(
      (mac) => `ip6 length ${whole} @th,${at},64 0x${option}${macDigits(mac)} ${next}`,
    ),
    `ip6 length ${whole} @th,${at},8 ${NONCE} ${next}`,
  ];
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
  const servers = guard.serves ? [] : SERVER_WORDS_4;
  const sources = [
    ...own.map((address) => `ip saddr ${address} accept`),
    "ip saddr 0.0.0.0 udp dport 67 accept",
  ];
  const rest = guard.addresses === undefined ? ["accept"] : sources;
  return { name: "ipv4", rules: [...servers, ...rest] };
}

/** By number: names are looked up in /etc/protocols, which an image need not have. Source: RFC 4443, section 1. */
const ICMPV6 = "58";

/** By the address that a word of neighbour discovery is about, and by the one that it comes from. */
function addressChains(own: readonly IpPrefix[]): readonly Chain[] {
  return [
    { name: "nd-solicit-source", rules: ["ip6 saddr :: goto nd-target", "goto ipv6-source"] },
    { name: "nd-router-source", rules: ["ip6 saddr :: accept", "goto ipv6-source"] },
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

/** Whom what of IPv6 goes on to; without addresses all of them let it through. */
const NEXT = {
  any: "goto ipv6-source",
  solicits: "goto nd-solicit-source",
  solicitsRouter: "goto nd-router-source",
  advertises: "goto nd-target",
} as const;

/** Headers that stand before an upper one. Source: RFC 8200, 4; linux net/ipv6/exthdrs_core.c, ipv6_ext_hdr */
const EXTENSIONS: readonly string[] = ["0", "43", "44", "51", "60"];

/**
 * A fragment begins with an upper header, or a router's word hides behind options that fill the first one: then no rule
 * sees its type. Nobody else sends such fragments. Source: RFC 7112, section 5; RFC 7113, section 2.2
 */
const HIDDEN: readonly string[] = EXTENSIONS.map((number) => `frag nexthdr ${number} drop`);

function ipv6Chains(guard: SendGuard, own: readonly IpPrefix[]): readonly Chain[] {
  if (guard.serves && guard.addresses === undefined) return [{ name: "ipv6", rules: ["accept"] }];
  const next = (kind: keyof typeof NEXT): string =>
    guard.addresses === undefined ? "accept" : NEXT[kind];
  const options = (kind: keyof typeof ND_BYTES): readonly string[] => {
    const option = kind === "advertises" ? LINK_LAYER.target : LINK_LAYER.source;
    return optionRules(guard, { bytes: ND_BYTES[kind], option }, next(kind));
  };
  return [
    {
      name: "ipv6",
      rules: [
        ...HIDDEN,
        `frag frag-off != 0 ${next("any")}`,
        ...(guard.serves ? [] : SERVER_WORDS_6),
        "icmpv6 type nd-neighbor-solicit goto nd-solicit",
        "icmpv6 type nd-neighbor-advert goto nd-advert",
        "icmpv6 type nd-router-solicit goto nd-router",
        ...(guard.addresses === undefined ? [] : [`ip6 saddr :: meta l4proto ${ICMPV6} accept`]),
        next("any"),
      ],
    },
    { name: "nd-solicit", rules: options("solicits") },
    { name: "nd-advert", rules: options("advertises") },
    { name: "nd-router", rules: options("solicitsRouter") },
    ...(guard.addresses === undefined ? [] : addressChains(own)),
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
        ...guard.macs.map(announcement),
        ...(guard.addresses === undefined ? OTHERS : []),
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
