// SPDX-License-Identifier: Apache-2.0
// Rules for the IPv6 packets that a guest may send. Details: docs/design/guest-traffic.md.
import { IP_BITS, printAddress, type IpPrefix } from "@patchbay/api/values";
import type { SendGuard } from "@patchbay/core/nics";
import { type Chain, macDigits, rawNumber } from "./table.ts";

/**
 * Protocol numbers, because nft looks up names in /etc/protocols, which an image may lack. Fields after the fixed
 * header are matched by offset: frames larger than a page are not contiguous in memory, and the kernel may take any
 * byte of them for the protocol number (6.18, ipv6_find_hdr).
 */
const TCP = 6;
const UDP = 17;
const FRAGMENT = 44;
const AUTHENTICATION = 51;
const ICMPV6 = 58;
const PIM = 103;
/** Extension headers that another header follows, except the fragment header. Source: RFC 8200, section 4.1 */
const EXTENSION_HEADERS: readonly number[] = [0, 43, 60];
/** Headers that a fragment may not begin with. */
const NOT_FINAL_HEADERS: readonly number[] = [...EXTENSION_HEADERS, FRAGMENT, AUTHENTICATION];
/** Bytes of the largest packet in which the kernel finds all headers. Source: linux drivers/net/tun.c */
const CONTIGUOUS_BYTES_MAX = 2048;
const BITS_PER_BYTE = 8;
/** Bytes of the fixed header, of the fragment header, and of an option that carries a MAC. */
const [FIXED_HEADER_BYTES, FRAGMENT_HEADER_BYTES, MAC_OPTION_BYTES] = [40, 8, 8];

const [CLIENT_PORT, SERVER_PORT] = [546, 547];
/** ICMPv6 types: router solicitation, neighbor solicitation, neighbor advertisement. Source: RFC 4861; RFC 2710; RFC 4286 */
const [ROUTER_SOLICITATION, NEIGHBOR_SOLICITATION, NEIGHBOR_ADVERTISEMENT] = [133, 135, 136];
/** ICMPv6 messages of routers: advertisement, redirect, MLD query, multicast router advertisement and termination. */
const ROUTER_ICMP_TYPES: readonly number[] = [134, 137, 130, 151, 153];
const ROUTER_ICMP_NAMES = ["nd-router-advert", "nd-redirect", "mld-listener-query", "151", "153"];
const DISCOVERY_TYPES = [133, 137];

export function prefixText(prefix: IpPrefix): string {
  const isWhole = prefix.length === IP_BITS[prefix.version];
  return `${printAddress(prefix)}${isWhole ? "" : `/${String(prefix.length)}`}`;
}

function hex(value: number | bigint): string {
  return `0x${value.toString(16)}`;
}

function field(at: number, bits: number): string {
  return `@nh,${String(at * BITS_PER_BYTE)},${String(bits)}`;
}

/** Matches the target of neighbor discovery. nft needs a mask if the prefix ends within a byte. */
function targetMatch({ value, length }: IpPrefix): string {
  const bits = Math.ceil(length / BITS_PER_BYTE) * BITS_PER_BYTE;
  const head = value >> BigInt(IP_BITS[6] - bits);
  const target = field(FIXED_HEADER_BYTES + 8, bits);
  if (bits === length) return `${target} ${hex(head)}`;
  const rest = BigInt(bits - length);
  const mask = ((1n << BigInt(length)) - 1n) << rest;
  return `${target} & ${hex(mask)} == ${hex(head)}`;
}

interface DiscoveryMessage {
  readonly chain: string;
  readonly type: number;
  /** Bytes without options. Source: RFC 4861, 4.1, 4.3 and 4.4 */
  readonly length: number;
  /** Type and length of the option that carries a MAC, in hexadecimal. Source: RFC 4861, 4.6.1 */
  readonly option: "0101" | "0201";
  readonly next: string;
}

const DISCOVERY_MESSAGES: readonly DiscoveryMessage[] = [
  {
    chain: "nd-asks-router",
    type: ROUTER_SOLICITATION,
    length: 8,
    option: "0101",
    next: "nd-source",
  },
  {
    chain: "nd-solicits",
    type: NEIGHBOR_SOLICITATION,
    length: 24,
    option: "0101",
    next: "nd-probe",
  },
  {
    chain: "nd-advertises",
    type: NEIGHBOR_ADVERTISEMENT,
    length: 24,
    option: "0201",
    next: "nd-target",
  },
];

/** Passes only messages without options or with a single MAC option, because rules cannot iterate over options. */
function messageChain(
  { chain, type, length, option, next }: DiscoveryMessage,
  guard: SendGuard,
): Chain {
  const isLonger = `ip6 length ${String(length + MAC_OPTION_BYTES)}`;
  const at = FIXED_HEADER_BYTES + length;
  const named = guard.macs.map(
    (mac) =>
      `${isLonger} ${field(at, MAC_OPTION_BYTES * BITS_PER_BYTE)} ${rawNumber(option + macDigits(mac))}`,
  );
  // The nonce option, by which a guest recognizes its own probes. Source: RFC 7527; RFC 3971, 5.3.2
  const numbered = type === NEIGHBOR_SOLICITATION ? [`${isLonger} ${field(at, 16)} 0xe01`] : [];
  const whole = [`ip6 length ${String(length)}`, ...named, ...numbered];
  return { name: chain, rules: whole.map((match) => `${match} goto ${next}`) };
}

/** Drops messages of DHCP servers; `at` is the offset of their UDP header. */
function udpDrops(at: number): readonly string[] {
  const [from, to] = [field(at, 16), field(at + 2, 16)];
  return [`${from} ${hex(SERVER_PORT)} drop`, `${to} ${hex(CLIENT_PORT)} drop`];
}
function icmpDrops(at: number): readonly string[] {
  return ROUTER_ICMP_TYPES.map((type) => `${field(at, BITS_PER_BYTE)} ${hex(type)} drop`);
}

function plainChains(guard: SendGuard): readonly Chain[] {
  const type = field(FIXED_HEADER_BYTES, BITS_PER_BYTE);
  const udp = { name: "ipv6-udp", rules: [...udpDrops(FIXED_HEADER_BYTES), "goto ipv6-source"] };
  return [
    ...(guard.allowsServers ? [] : [udp]),
    {
      name: "ipv6-icmp",
      rules: [
        ...(guard.allowsServers ? [] : icmpDrops(FIXED_HEADER_BYTES)),
        ...DISCOVERY_MESSAGES.map(
          (message) => `${type} ${hex(message.type)} goto ${message.chain}`,
        ),
        "goto nd-source",
      ],
    },
    ...DISCOVERY_MESSAGES.map((message) => messageChain(message, guard)),
  ];
}

/**
 * Builds chains for fragments. A first fragment may end after its first header, which must therefore be the last.
 * Receivers ignore fragmented neighbor discovery. Source: RFC 7112; RFC 6980
 */
function fragmentChains(): readonly Chain[] {
  const next = field(FIXED_HEADER_BYTES, BITS_PER_BYTE);
  const isFirst = `${field(FIXED_HEADER_BYTES + 2, 16)} & 0xfff8 == 0x0`;
  const content = FIXED_HEADER_BYTES + FRAGMENT_HEADER_BYTES;
  return [
    {
      name: "ipv6-fragment",
      rules: [
        ...[...NOT_FINAL_HEADERS, PIM].map((header) => `${next} ${hex(header)} drop`),
        `${next} ${hex(UDP)} ${isFirst} goto ipv6-first-udp`,
        `${next} ${hex(ICMPV6)} ${isFirst} goto ipv6-first-icmp`,
        "goto ipv6-source",
      ],
    },
    { name: "ipv6-first-udp", rules: [...udpDrops(content), "goto ipv6-source"] },
    {
      name: "ipv6-first-icmp",
      rules: [
        ...icmpDrops(content),
        `${field(content, BITS_PER_BYTE)} ${DISCOVERY_TYPES.map(hex).join("-")} drop`,
        "goto ipv6-source",
      ],
    },
  ];
}

/** Builds the chain for packets with extension headers, whose last header the kernel finds in small packets only. */
function extensionHeaderChain({ allowsServers }: SendGuard): Chain {
  const restrictions = [
    `meta length > ${String(CONTIGUOUS_BYTES_MAX)} drop`,
    ...NOT_FINAL_HEADERS.map((header) => `frag nexthdr ${String(header)} drop`),
    `icmpv6 type ${DISCOVERY_TYPES.join("-")} drop`,
    ...ROUTER_ICMP_NAMES.map((type) => `icmpv6 type ${type} drop`),
    `udp sport ${String(SERVER_PORT)} drop`,
    `udp dport ${String(CLIENT_PORT)} drop`,
    `meta l4proto ${String(PIM)} drop`,
  ];
  return {
    name: "ipv6-behind",
    rules: [
      ...(allowsServers ? [] : restrictions),
      // Accepts MLD reports that a guest sends before it has an address.
      `ip6 saddr :: meta l4proto ${String(ICMPV6)} accept`,
      // A packet with broken headers has no protocol number.
      allowsServers ? "goto ipv6-source" : "meta l4proto 0-255 goto ipv6-source",
    ],
  };
}

/** Builds chains that check the address that a message is about, and its source address. */
function sourceChains(own: readonly IpPrefix[]): readonly Chain[] {
  const isProbe = `ip6 nexthdr ${String(ICMPV6)} ip6 saddr :: ${field(FIXED_HEADER_BYTES, BITS_PER_BYTE)} ${hex(NEIGHBOR_SOLICITATION)}`;
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

export function ipv6Chains(guard: SendGuard, own: readonly IpPrefix[]): readonly Chain[] {
  const verdicts: readonly (readonly [number, string])[] = [
    [TCP, "goto ipv6-source"],
    [ICMPV6, "goto ipv6-icmp"],
    ...EXTENSION_HEADERS.map((header) => [header, "goto ipv6-behind"] as const),
  ];
  // A guest that may be a router forwards packets that other hosts fragmented.
  const restrictions: typeof verdicts = guard.allowsServers
    ? []
    : [
        [UDP, "goto ipv6-udp"],
        [FRAGMENT, "goto ipv6-fragment"],
        [PIM, "drop"],
      ];
  const rules = [...verdicts, ...restrictions].map(
    ([next, verdict]) => `ip6 nexthdr ${String(next)} ${verdict}`,
  );
  return [
    { name: "ipv6", rules: [...rules, "goto ipv6-source"] },
    ...plainChains(guard),
    ...(guard.allowsServers ? [] : fragmentChains()),
    extensionHeaderChain(guard),
    ...(guard.addresses === undefined ? ANY_SOURCE : sourceChains(own)),
  ];
}
