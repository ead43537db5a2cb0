// SPDX-License-Identifier: Apache-2.0
// What a guest may send of IPv6, as rules. Why each: docs/design/guest-traffic.md.
import { IP_BITS, printAddress, type IpPrefix } from "@patchbay/api";
import type { SendGuard } from "@patchbay/core";
import { macDigits, rawNumber } from "./raw.ts";
import type { Chain } from "./table.ts";

/**
 * Protocols by number: names are looked up in /etc/protocols, which an image need not have. What is behind the fixed
 * header is told by its place: of a frame that is not in one piece of memory, which those of more than a page are, the
 * kernel takes any byte for the number of the protocol (6.18, ipv6_find_hdr).
 */
const TCP = 6;
const UDP = 17;
const FRAGMENT = 44;
const AUTHENTICATION = 51;
const ICMPV6 = 58;
const PIM = 103;
/** Headers that another one follows, beside the fragment's. Source: RFC 8200, section 4.1 */
const FOLLOWED: readonly number[] = [0, 43, 60];
/** What a fragment does not begin with. */
const NOT_LAST: readonly number[] = [...FOLLOWED, FRAGMENT, AUTHENTICATION];
/** Bytes of a packet whose headers the kernel finds: it is in one piece, with room to spare. Source: linux drivers/net/tun.c */
const ONE_PIECE = 2048;
const BYTE = 8;
/** Bytes of the fixed header, of a fragment's, and of an option that names a MAC. */
const [FIXED, FRAGMENT_BYTES, OPTION] = [40, 8, 8];

/** Ports of DHCPv6: of whom servers answer, and of servers. */
const [CLIENT_PORT, SERVER_PORT] = [546, 547];
/** ICMPv6. Source: RFC 4861; RFC 2710; RFC 4286 */
const [ASKS_ROUTER, SOLICITS, ADVERTISES] = [133, 135, 136];
/** What only a router sends: advertisements, redirects, queries, and where routers of multicast are, or that they go. */
const ROUTER_WORDS: readonly number[] = [134, 137, 130, 151, 153];
/** The same in the words of nft. */
const ROUTER_TYPES = ["nd-router-advert", "nd-redirect", "mld-listener-query", "151", "153"];
/** First and last of neighbour discovery. */
const NEIGHBOURS = [133, 137];

/** An address or a prefix, the way that nft prints it. */
export function prefixText(prefix: IpPrefix): string {
  const isWhole = prefix.length === IP_BITS[prefix.version];
  return `${printAddress(prefix)}${isWhole ? "" : `/${String(prefix.length)}`}`;
}

function hex(value: number | bigint): string {
  return `0x${value.toString(16)}`;
}

/** A field by its place, bytes from the packet's first. */
function field(at: number, bits: number): string {
  return `@nh,${String(at * BYTE)},${String(bits)}`;
}

/** The target of a solicitation or an advertisement is within the prefix; nft masks what ends within a byte. */
function targetMatch({ value, length }: IpPrefix): string {
  const bits = Math.ceil(length / BYTE) * BYTE;
  const head = value >> BigInt(IP_BITS[6] - bits);
  const target = field(FIXED + 8, bits);
  if (bits === length) return `${target} ${hex(head)}`;
  const rest = BigInt(bits - length);
  const mask = ((1n << BigInt(length)) - 1n) << rest;
  return `${target} & ${hex(mask)} == ${hex(head)}`;
}

/** A message of neighbour discovery: how long it is without options, and the option in which it names a MAC. */
interface Message {
  readonly chain: string;
  readonly type: number;
  /** Bytes. Source: RFC 4861, 4.1, 4.3 and 4.4 */
  readonly length: number;
  /** Kind and length of the option, hexadecimal digits. Source: RFC 4861, 4.6.1 */
  readonly option: "0101" | "0201";
  /** Where it goes on. */
  readonly next: string;
}

const MESSAGES: readonly Message[] = [
  { chain: "nd-asks-router", type: ASKS_ROUTER, length: 8, option: "0101", next: "nd-source" },
  { chain: "nd-solicits", type: SOLICITS, length: 24, option: "0101", next: "nd-probe" },
  { chain: "nd-advertises", type: ADVERTISES, length: 24, option: "0201", next: "nd-target" },
];

/**
 * Rules cannot walk along options, so what passes is told by its whole length: no option, or one, with a MAC of the
 * guest's.
 */
function messageChain({ chain, type, length, option, next }: Message, guard: SendGuard): Chain {
  const isLonger = `ip6 length ${String(length + OPTION)}`;
  const at = FIXED + length;
  const named = guard.macs.map(
    (mac) => `${isLonger} ${field(at, OPTION * BYTE)} ${rawNumber(option + macDigits(mac))}`,
  );
  // A number that tells a guest's own probe from another's. Source: RFC 7527; RFC 3971, 5.3.2
  const numbered = type === SOLICITS ? [`${isLonger} ${field(at, 16)} 0xe01`] : [];
  const whole = [`ip6 length ${String(length)}`, ...named, ...numbered];
  return { name: chain, rules: whole.map((match) => `${match} goto ${next}`) };
}

/** What only servers and routers send, by its place: behind the fixed header, or in a first fragment. */
function udpWords(at: number): readonly string[] {
  const [from, to] = [field(at, 16), field(at + 2, 16)];
  return [`${from} ${hex(SERVER_PORT)} drop`, `${to} ${hex(CLIENT_PORT)} drop`];
}
function icmpWords(at: number): readonly string[] {
  return ROUTER_WORDS.map((type) => `${field(at, BYTE)} ${hex(type)} drop`);
}

/** What has no other header than the fixed one. */
function plainChains(guard: SendGuard): readonly Chain[] {
  const type = field(FIXED, BYTE);
  const udp = { name: "ipv6-udp", rules: [...udpWords(FIXED), "goto ipv6-source"] };
  return [
    ...(guard.serves ? [] : [udp]),
    {
      name: "ipv6-icmp",
      rules: [
        ...(guard.serves ? [] : icmpWords(FIXED)),
        ...MESSAGES.map((message) => `${type} ${hex(message.type)} goto ${message.chain}`),
        "goto nd-source",
      ],
    },
    ...MESSAGES.map((message) => messageChain(message, guard)),
  ];
}

/**
 * Parts of packets. A first one may hold no more than the header that it begins with, so that must be the last one.
 * Neighbour discovery nobody takes in parts. Source: RFC 7112; RFC 6980
 */
function fragmentChains(): readonly Chain[] {
  const next = field(FIXED, BYTE);
  const isFirst = `${field(FIXED + 2, 16)} & 0xfff8 == 0x0`;
  const content = FIXED + FRAGMENT_BYTES;
  return [
    {
      name: "ipv6-fragment",
      rules: [
        ...[...NOT_LAST, PIM].map((header) => `${next} ${hex(header)} drop`),
        `${next} ${hex(UDP)} ${isFirst} goto ipv6-first-udp`,
        `${next} ${hex(ICMPV6)} ${isFirst} goto ipv6-first-icmp`,
        "goto ipv6-source",
      ],
    },
    { name: "ipv6-first-udp", rules: [...udpWords(content), "goto ipv6-source"] },
    {
      name: "ipv6-first-icmp",
      rules: [
        ...icmpWords(content),
        `${field(content, BYTE)} ${NEIGHBOURS.map(hex).join("-")} drop`,
        "goto ipv6-source",
      ],
    },
  ];
}

/** What the kernel has to find behind headers of any number and length: in small packets, where it does. */
function behindChain({ serves }: SendGuard): Chain {
  const judged = [
    `meta length > ${String(ONE_PIECE)} drop`,
    ...NOT_LAST.map((header) => `frag nexthdr ${String(header)} drop`),
    `icmpv6 type ${NEIGHBOURS.join("-")} drop`,
    ...ROUTER_TYPES.map((type) => `icmpv6 type ${type} drop`),
    `udp sport ${String(SERVER_PORT)} drop`,
    `udp dport ${String(CLIENT_PORT)} drop`,
    `meta l4proto ${String(PIM)} drop`,
  ];
  return {
    name: "ipv6-behind",
    rules: [
      ...(serves ? [] : judged),
      // Reports of groups, before the guest has an address.
      `ip6 saddr :: meta l4proto ${String(ICMPV6)} accept`,
      // Where headers are broken there is no number.
      serves ? "goto ipv6-source" : "meta l4proto 0-255 goto ipv6-source",
    ],
  };
}

/** By the address that it is about, beside the one that it comes from. */
function sourceChains(own: readonly IpPrefix[]): readonly Chain[] {
  const isProbe = `ip6 nexthdr ${String(ICMPV6)} ip6 saddr :: ${field(FIXED, BYTE)} ${hex(SOLICITS)}`;
  return [
    { name: "nd-source", rules: ["ip6 saddr :: accept", "goto ipv6-source"] },
    { name: "nd-probe", rules: ["ip6 saddr :: goto nd-target", "goto ipv6-source"] },
    { name: "nd-target", rules: own.map((prefix) => `${targetMatch(prefix)} goto ipv6-source`) },
    {
      name: "ipv6-source",
      rules: [
        ...own.map((prefix) => `ip6 saddr ${prefixText(prefix)} accept`),
        `${isProbe} accept`,
      ],
    },
  ];
}
const ANY_SOURCE: readonly Chain[] = ["nd-source", "nd-probe", "nd-target", "ipv6-source"].map(
  (name) => ({ name, rules: ["accept"] }),
);

/** Chains of IPv6; the first one is named `ipv6`. `own`: the addresses that are the guest's. */
export function ipv6Chains(guard: SendGuard, own: readonly IpPrefix[]): readonly Chain[] {
  const ways: readonly (readonly [number, string])[] = [
    [TCP, "goto ipv6-source"],
    [ICMPV6, "goto ipv6-icmp"],
    ...FOLLOWED.map((header) => [header, "goto ipv6-behind"] as const),
  ];
  // Who may be a router sends on what others have split.
  const judged: typeof ways = guard.serves
    ? []
    : [
        [UDP, "goto ipv6-udp"],
        [FRAGMENT, "goto ipv6-fragment"],
        [PIM, "drop"],
      ];
  const rules = [...ways, ...judged].map(
    ([next, verdict]) => `ip6 nexthdr ${String(next)} ${verdict}`,
  );
  return [
    { name: "ipv6", rules: [...rules, "goto ipv6-source"] },
    ...plainChains(guard),
    ...(guard.serves ? [] : fragmentChains()),
    behindChain(guard),
    ...(guard.addresses === undefined ? ANY_SOURCE : sourceChains(own)),
  ];
}
