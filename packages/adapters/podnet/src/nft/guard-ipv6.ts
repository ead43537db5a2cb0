// SPDX-License-Identifier: Apache-2.0
// nftables rules for the IPv6 packets that a guest may send. docs/design/guest-traffic.md explains the rules.
import { IP_BITS, printAddress, type IpPrefix } from "@patchbay/api/values";
import type { SendGuard } from "@patchbay/core/nics";
import { type Chain, toMacDigits, printRawNumber } from "./table.ts";

/**
 * Protocol numbers. Rules do not use names, because nft looks names up in /etc/protocols, which an image may lack. Rules
 * match the headers after the fixed header by offset, because the kernel may determine a wrong protocol number in large
 * frames. Source: Linux 6.18, ipv6_find_hdr
 */
const TCP = 6;
const UDP = 17;
const FRAGMENT = 44;
const AUTHENTICATION = 51;
const ICMPV6 = 58;
const PIM = 103;
/** Headers that the rules skip to reach the next header: hop-by-hop options, routing, destination options. Source: RFC 8200, section 4.1 */
const EXTENSION_HEADERS: readonly number[] = [0, 43, 60];
/** Headers that another header always follows. The rules drop a fragment whose content begins with such a header. */
const NOT_FINAL_HEADERS: readonly number[] = [...EXTENSION_HEADERS, FRAGMENT, AUTHENTICATION];
/** Packet length in bytes up to which the kernel always finds all headers. Source: linux drivers/net/tun.c */
const CONTIGUOUS_BYTES_MAX = 2048;
const BITS_PER_BYTE = 8;
const [FIXED_HEADER_BYTES, FRAGMENT_HEADER_BYTES, MAC_OPTION_BYTES] = [40, 8, 8];

const [CLIENT_PORT, SERVER_PORT] = [546, 547];
/** Source: RFC 4861 */
const [ROUTER_SOLICITATION, NEIGHBOR_SOLICITATION, NEIGHBOR_ADVERTISEMENT] = [133, 135, 136];
/** Types of router messages: advertisement, redirect, MLD query, multicast router advertisement and termination. */
const ROUTER_ICMP_TYPES: readonly number[] = [134, 137, 130, 151, 153];
const ROUTER_ICMP_NAMES = ["nd-router-advert", "nd-redirect", "mld-listener-query", "151", "153"];
const DISCOVERY_TYPES = [133, 137];

export function printPrefix(prefix: IpPrefix): string {
  const isSingleAddress = prefix.length === IP_BITS[prefix.version];
  return `${printAddress(prefix)}${isSingleAddress ? "" : `/${String(prefix.length)}`}`;
}

function toHex(value: number | bigint): string {
  return `0x${value.toString(16)}`;
}

function printRawField(offset: number, bits: number): string {
  return `@nh,${String(offset * BITS_PER_BYTE)},${String(bits)}`;
}

/** Matches the target address of neighbor discovery. nft needs a mask if the prefix ends within a byte. */
function buildTargetMatch({ value, length }: IpPrefix): string {
  const bits = Math.ceil(length / BITS_PER_BYTE) * BITS_PER_BYTE;
  const prefixBits = value >> BigInt(IP_BITS[6] - bits);
  const target = printRawField(FIXED_HEADER_BYTES + 8, bits);
  if (bits === length) return `${target} ${toHex(prefixBits)}`;
  const hostBits = BigInt(bits - length);
  const mask = ((1n << BigInt(length)) - 1n) << hostBits;
  return `${target} & ${toHex(mask)} == ${toHex(prefixBits)}`;
}

interface DiscoveryMessage {
  readonly chain: string;
  readonly type: number;
  /** Length of the message without options, in bytes. Source: RFC 4861, 4.1, 4.3 and 4.4 */
  readonly length: number;
  /** Type and length of the option with a MAC, in hexadecimal. Source: RFC 4861, 4.6.1 */
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

/** Builds a chain for messages with at most one option, a MAC or a nonce, because nftables rules cannot iterate over options. */
function buildMessageChain(
  { chain, type, length, option, next }: DiscoveryMessage,
  guard: SendGuard,
): Chain {
  const lengthWithOption = `ip6 length ${String(length + MAC_OPTION_BYTES)}`;
  const optionOffset = FIXED_HEADER_BYTES + length;
  const macMatches = guard.macs.map(
    (mac) =>
      `${lengthWithOption} ${printRawField(optionOffset, MAC_OPTION_BYTES * BITS_PER_BYTE)} ${printRawNumber(option + toMacDigits(mac))}`,
  );
  // Accepts the nonce option, by which guests recognize their own probes. Source: RFC 7527; RFC 3971, 5.3.2
  const nonceMatches =
    type === NEIGHBOR_SOLICITATION
      ? [`${lengthWithOption} ${printRawField(optionOffset, 16)} 0xe01`]
      : [];
  const matches = [`ip6 length ${String(length)}`, ...macMatches, ...nonceMatches];
  return { name: chain, rules: matches.map((match) => `${match} goto ${next}`) };
}

/** Builds rules that drop messages of DHCPv6 servers. `offset` is the position of the UDP header, in bytes. */
function buildUdpDrops(offset: number): readonly string[] {
  const [sourcePort, destinationPort] = [printRawField(offset, 16), printRawField(offset + 2, 16)];
  return [
    `${sourcePort} ${toHex(SERVER_PORT)} drop`,
    `${destinationPort} ${toHex(CLIENT_PORT)} drop`,
  ];
}
function buildIcmpDrops(offset: number): readonly string[] {
  return ROUTER_ICMP_TYPES.map(
    (type) => `${printRawField(offset, BITS_PER_BYTE)} ${toHex(type)} drop`,
  );
}

function buildHeaderChains(guard: SendGuard): readonly Chain[] {
  const typeField = printRawField(FIXED_HEADER_BYTES, BITS_PER_BYTE);
  const udp = {
    name: "ipv6-udp",
    rules: [...buildUdpDrops(FIXED_HEADER_BYTES), "goto ipv6-source"],
  };
  return [
    ...(guard.allowsServers ? [] : [udp]),
    {
      name: "ipv6-icmp",
      rules: [
        ...(guard.allowsServers ? [] : buildIcmpDrops(FIXED_HEADER_BYTES)),
        ...DISCOVERY_MESSAGES.map(
          (message) => `${typeField} ${toHex(message.type)} goto ${message.chain}`,
        ),
        "goto nd-source",
      ],
    },
    ...DISCOVERY_MESSAGES.map((message) => buildMessageChain(message, guard)),
  ];
}

/**
 * Builds chains for fragments. Drops fragments with extension headers, because the next header may be in a later
 * fragment. Drops fragmented neighbor discovery, which RFC 6980 forbids. Source: RFC 7112; RFC 6980
 */
function buildFragmentChains(): readonly Chain[] {
  const nextHeader = printRawField(FIXED_HEADER_BYTES, BITS_PER_BYTE);
  const firstFragment = `${printRawField(FIXED_HEADER_BYTES + 2, 16)} & 0xfff8 == 0x0`;
  const contentOffset = FIXED_HEADER_BYTES + FRAGMENT_HEADER_BYTES;
  return [
    {
      name: "ipv6-fragment",
      rules: [
        ...[...NOT_FINAL_HEADERS, PIM].map((header) => `${nextHeader} ${toHex(header)} drop`),
        `${nextHeader} ${toHex(UDP)} ${firstFragment} goto ipv6-first-udp`,
        `${nextHeader} ${toHex(ICMPV6)} ${firstFragment} goto ipv6-first-icmp`,
        "goto ipv6-source",
      ],
    },
    { name: "ipv6-first-udp", rules: [...buildUdpDrops(contentOffset), "goto ipv6-source"] },
    {
      name: "ipv6-first-icmp",
      rules: [
        ...buildIcmpDrops(contentOffset),
        `${printRawField(contentOffset, BITS_PER_BYTE)} ${DISCOVERY_TYPES.map(toHex).join("-")} drop`,
        "goto ipv6-source",
      ],
    },
  ];
}

/** Builds the chain for extension headers. `restrictions` also drop large packets, because the kernel may not find their last header. */
function buildExtensionHeaderChain({ allowsServers }: SendGuard): Chain {
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
      // A guest without an address sends MLD reports from the unspecified address.
      `ip6 saddr :: meta l4proto ${String(ICMPV6)} accept`,
      // Without 0-255, the rule would also match packets with malformed headers, which have no protocol number.
      allowsServers ? "goto ipv6-source" : "meta l4proto 0-255 goto ipv6-source",
    ],
  };
}

function buildSourceChains(addresses: readonly IpPrefix[]): readonly Chain[] {
  const probeMatch = `ip6 nexthdr ${String(ICMPV6)} ip6 saddr :: ${printRawField(FIXED_HEADER_BYTES, BITS_PER_BYTE)} ${toHex(NEIGHBOR_SOLICITATION)}`;
  return [
    { name: "nd-source", rules: ["ip6 saddr :: accept", "goto ipv6-source"] },
    { name: "nd-probe", rules: ["ip6 saddr :: goto nd-target", "goto ipv6-source"] },
    {
      name: "nd-target",
      rules: addresses.map((prefix) => `${buildTargetMatch(prefix)} goto ipv6-source`),
    },
    {
      name: "ipv6-source",
      rules: [
        ...addresses.map((prefix) => `ip6 saddr ${printPrefix(prefix)} accept`),
        `${probeMatch} accept`,
      ],
    },
  ];
}
const ANY_SOURCE: readonly Chain[] = ["nd-source", "nd-probe", "nd-target", "ipv6-source"].map(
  (name) => ({ name, rules: ["accept"] }),
);

export function buildIpv6Chains(
  guard: SendGuard,
  addresses: readonly IpPrefix[],
): readonly Chain[] {
  const verdicts: readonly (readonly [number, string])[] = [
    [TCP, "goto ipv6-source"],
    [ICMPV6, "goto ipv6-icmp"],
    ...EXTENSION_HEADERS.map((header) => [header, "goto ipv6-behind"] as const),
  ];
  // These rules drop messages of servers and routers, and check fragments. A guest that may act as a server or router is
  // exempt, because it may send such messages and may forward fragments of other hosts.
  const restrictions: typeof verdicts = guard.allowsServers
    ? []
    : [
        [UDP, "goto ipv6-udp"],
        [FRAGMENT, "goto ipv6-fragment"],
        [PIM, "drop"],
      ];
  const rules = [...verdicts, ...restrictions].map(
    ([header, verdict]) => `ip6 nexthdr ${String(header)} ${verdict}`,
  );
  return [
    { name: "ipv6", rules: [...rules, "goto ipv6-source"] },
    ...buildHeaderChains(guard),
    ...(guard.allowsServers ? [] : buildFragmentChains()),
    buildExtensionHeaderChain(guard),
    ...(guard.addresses === undefined ? ANY_SOURCE : buildSourceChains(addresses)),
  ];
}
