// SPDX-License-Identifier: Apache-2.0
// Frames that a guest may try, and which of them are forwarded.
import { guestWiring } from "../../contract/podnet/links.ts";
import {
  address,
  arp,
  frame,
  ipv4,
  ipv6,
  linkLayer,
  nd,
  ND,
  ndWord,
  number,
  rarp,
  udp,
  type Arp,
} from "./frames.ts";

/** The sending guest; its link-local address derives from its MAC. Source: RFC 4291, appendix A */
export const OWN = {
  mac: guestWiring(1).mac,
  ipv4: "10.9.0.1",
  ipv6: "fd09::1",
  linkLocal: "fe80::ff:fe00:5e01",
};
const OTHER = { mac: guestWiring(2).mac, ipv4: "10.9.0.2", ipv6: "fd09::2" };

interface Row {
  readonly name: string;
  readonly hex: string;
  readonly passes: { readonly addresses: boolean; readonly mac: boolean };
}

const ALWAYS = { addresses: true, mac: true };
const NEVER = { addresses: false, mac: false };
/** Without known addresses any address is allowed. */
const BY_MAC = { addresses: false, mac: true };

/** Type and payload of a guest's multicast frame, or also its destination and source MAC. */
type Sent = string | { readonly content: string; readonly to?: string; readonly from?: string };

/** Each frame has its own group as an identifier. */
let count = 0;
function row(name: string, passes: Row["passes"], sent: Sent): Row {
  count += 1;
  const group = `03:00:00:00:00:${number(count, 1)}`;
  const {
    content,
    to = group,
    from = OWN.mac,
  } = typeof sent === "string" ? { content: sent } : sent;
  return { name, passes, hex: frame(to, from, content) };
}

/** Sent last: when it is received, all earlier ones are. */
export const LAST = row("", ALWAYS, udp(OWN.ipv4, "10.9.0.254", [9, 9])).hex;

function ofArp(change: Partial<Arp>): string {
  return arp({ op: 2, mac: OWN.mac, ip: OWN.ipv4, asks: OWN.ipv4, ...change });
}

/** An extension header of eight bytes: hop-by-hop options (0) or destination options (60). Source: RFC 8200, 4 */
function options(next: number, content: string): string {
  return `${number(next, 1)}00010400000000${content}`;
}

/** A fragment header; the offset is in units of eight bytes. Source: RFC 8200, 4.5 */
function fragment(next: number, at: { offset: number; more: 0 | 1 }, content: string): string {
  return `${number(next, 1)}00${number(at.offset * 8 + at.more, 2)}00000001${content}`;
}

function ofIpv6(next: number, content: string, from = OWN.linkLocal): string {
  return ipv6(from, "ff02::1", { next, content });
}

function ofNd(from: string, word: string): string {
  return ofIpv6(ICMPV6, word, from);
}

const [HOP_BY_HOP, FRAGMENT, NONE, DESTINATION] = [0, 44, 59, 60] as const;
const [TCP, UDP, ICMPV6, PIM] = [6, 17, 58, 103] as const;
const ADVERTISEMENT = ndWord(ND.advertisesRouter, OWN.linkLocal);
const QUERY_6 = `82000000${"00".repeat(4)}${address("::")}`;
const REPORT_6 = `8f000000${"00".repeat(4)}`;
const NONCE = "0e01010203040506";
const UDP_HEADER = "00090009000800000000";
const [FIRST, LATER] = [
  { offset: 0, more: 1 },
  { offset: 1, more: 0 },
] as const;

function ofIgmp(type: number): string {
  return ipv4(OWN.ipv4, "224.0.0.1", {
    protocol: 2,
    content: `${number(type, 1)}000000${"00".repeat(4)}`,
  });
}

const ARP_ROWS: readonly Row[] = [
  row("ARP of its own address", ALWAYS, ofArp({})),
  row("ARP that asks for another's", ALWAYS, ofArp({ op: 1, asks: OTHER.ipv4 })),
  row("ARP that another's address is here", BY_MAC, ofArp({ ip: OTHER.ipv4 })),
  row("ARP that its address is at another's MAC", NEVER, ofArp({ mac: OTHER.mac })),
  row("an ARP probe for its own address", ALWAYS, ofArp({ op: 1, ip: "0.0.0.0" })),
  row("an ARP probe for another's", BY_MAC, ofArp({ op: 1, ip: "0.0.0.0", asks: OTHER.ipv4 })),
  row("ARP of another hardware", NEVER, ofArp({}).replace(/^08060001/, "08060006")),
  row("ARP of another protocol", NEVER, ofArp({}).replace(/^080600010800/, "0806000186dd")),
  row("ARP with long MACs", NEVER, ofArp({}).replace(/^08060001080006/, "08060001080008")),
  row("ARP with long addresses", NEVER, ofArp({}).replace(/^0806000108000604/, "0806000108000610")),
  row("ARP from another's MAC", NEVER, { content: ofArp({ mac: OTHER.mac }), from: OTHER.mac }),
  row("a RARP request of its own MAC", ALWAYS, rarp(OWN.mac, OWN.mac)),
  row("attack 97: a RARP request from another's MAC", NEVER, rarp(OTHER.mac, OWN.mac)),
  row("attack 97: a RARP request about another's MAC", NEVER, rarp(OWN.mac, OTHER.mac)),
  row("attack 97: a RARP answer", NEVER, rarp(OWN.mac, OWN.mac, 4)),
  row("attack 97: RARP of anything", NEVER, `8035${"ab".repeat(40)}`),
];

const IPV4_ROWS: readonly Row[] = [
  row("UDP from its own address", ALWAYS, udp(OWN.ipv4, "10.9.0.255", [9, 9])),
  row("UDP from another's", BY_MAC, udp(OTHER.ipv4, "10.9.0.255", [9, 9])),
  row(
    "TCP from its own",
    ALWAYS,
    ipv4(OWN.ipv4, OTHER.ipv4, { protocol: 6, content: "00".repeat(20) }),
  ),
  row(
    "ICMP from its own",
    ALWAYS,
    ipv4(OWN.ipv4, OTHER.ipv4, { protocol: 1, content: "08000000" }),
  ),
  row("UDP from no address", BY_MAC, udp("0.0.0.0", "10.9.0.255", [9, 9])),
  row("UDP from the broadcast address", BY_MAC, udp("255.255.255.255", "10.9.0.255", [9, 9])),
  row("a question to a DHCP server", ALWAYS, udp("0.0.0.0", "255.255.255.255", [68, 67])),
  row("a DHCP renewal", ALWAYS, udp(OWN.ipv4, OTHER.ipv4, [68, 67])),
  row("an answer of a DHCP server", NEVER, udp(OWN.ipv4, "255.255.255.255", [67, 68])),
  row("a DHCP server's word to any port", NEVER, udp(OWN.ipv4, OTHER.ipv4, [67, 9])),
  row("an IGMP report", ALWAYS, ofIgmp(0x16)),
  row("an IGMP leave", ALWAYS, ofIgmp(0x17)),
  row("attack 97: an IGMP query", NEVER, ofIgmp(0x11)),
  row(
    "a first fragment",
    ALWAYS,
    ipv4(OWN.ipv4, OTHER.ipv4, { content: UDP_HEADER, fragment: 0x2000 }),
  ),
  row("a later fragment", ALWAYS, ipv4(OWN.ipv4, OTHER.ipv4, { content: UDP_HEADER, fragment: 1 })),
  row(
    "a later fragment from another's address",
    BY_MAC,
    ipv4(OTHER.ipv4, OWN.ipv4, { content: UDP_HEADER, fragment: 1 }),
  ),
];

const IPV6_ROWS: readonly Row[] = [
  row("UDP from its own IPv6 address", ALWAYS, udp(OWN.ipv6, "ff02::1", [9, 9])),
  row("UDP from its link-local address", ALWAYS, udp(OWN.linkLocal, "ff02::1", [9, 9])),
  row("UDP from another's IPv6 address", BY_MAC, udp(OTHER.ipv6, "ff02::1", [9, 9])),
  row("a question to a DHCPv6 server", ALWAYS, udp(OWN.linkLocal, "ff02::1:2", [546, 547])),
  row("an answer of a DHCPv6 server", NEVER, udp(OWN.linkLocal, "ff02::1", [547, 546])),
  row("a router advertisement", NEVER, ofIpv6(ICMPV6, ADVERTISEMENT)),
  row("one behind hop-by-hop options", NEVER, ofIpv6(HOP_BY_HOP, options(ICMPV6, ADVERTISEMENT))),
  row("one behind destination options", NEVER, ofIpv6(DESTINATION, options(ICMPV6, ADVERTISEMENT))),
  row(
    "one in a fragment that is all of it",
    NEVER,
    ofIpv6(FRAGMENT, fragment(ICMPV6, { offset: 0, more: 0 }, ADVERTISEMENT)),
  ),
  row(
    "one whose rest is in a later fragment",
    NEVER,
    ofIpv6(FRAGMENT, fragment(ICMPV6, FIRST, ADVERTISEMENT.slice(0, 16))),
  ),
  row(
    "attack 96: a first fragment with options alone",
    NEVER,
    ofIpv6(FRAGMENT, fragment(DESTINATION, FIRST, options(ICMPV6, ""))),
  ),
  row(
    "attack 96: one with a false type behind its end",
    NEVER,
    `${ofIpv6(FRAGMENT, fragment(DESTINATION, FIRST, options(ICMPV6, "")))}80000000`,
  ),
  row(
    "attack 96: a first fragment with two headers of options",
    NEVER,
    ofIpv6(FRAGMENT, fragment(DESTINATION, FIRST, options(DESTINATION, options(ICMPV6, "")))),
  ),
  row(
    "attack 96: a first fragment with half a header of options",
    NEVER,
    ofIpv6(FRAGMENT, fragment(DESTINATION, FIRST, "3a02010400000000")),
  ),
  row(
    "a first fragment with its upper header",
    ALWAYS,
    ofIpv6(FRAGMENT, fragment(UDP, FIRST, UDP_HEADER)),
  ),
  row("a later fragment of its own", ALWAYS, ofIpv6(FRAGMENT, fragment(UDP, LATER, UDP_HEADER))),
  row(
    "attack 96: a later fragment behind options",
    NEVER,
    ofIpv6(FRAGMENT, fragment(DESTINATION, LATER, UDP_HEADER)),
  ),
  row(
    "a later fragment from another's IPv6 address",
    BY_MAC,
    ofIpv6(FRAGMENT, fragment(UDP, LATER, UDP_HEADER), OTHER.ipv6),
  ),
  row("an upper header of no bytes, which says nothing", ALWAYS, ofIpv6(ICMPV6, "")),
  row("no upper header", ALWAYS, ofIpv6(NONE, "")),
  row("a redirect", NEVER, nd(OWN.linkLocal, ND.redirects, OTHER.ipv6)),
  row("a report of multicast listeners", ALWAYS, ofIpv6(HOP_BY_HOP, options(ICMPV6, REPORT_6))),
  row(
    "a report from no address",
    ALWAYS,
    ofIpv6(HOP_BY_HOP, options(ICMPV6, `${REPORT_6}00`), "::"),
  ),
  row("attack 97: a query for multicast listeners", NEVER, ofIpv6(ICMPV6, QUERY_6)),
  row(
    "attack 97: one behind hop-by-hop options",
    NEVER,
    ofIpv6(HOP_BY_HOP, options(ICMPV6, QUERY_6)),
  ),
];

const ND_ROWS: readonly Row[] = [
  row(
    "a solicitation with its own MAC",
    ALWAYS,
    ofNd(OWN.ipv6, ndWord(ND.solicits, OTHER.ipv6, linkLayer(1, OWN.mac))),
  ),
  row("a solicitation without options", ALWAYS, nd(OWN.ipv6, ND.solicits, OTHER.ipv6)),
  row(
    "a probe for its own address with a nonce",
    ALWAYS,
    ofNd("::", ndWord(ND.solicits, OWN.ipv6, NONCE)),
  ),
  row("a probe for another's", BY_MAC, nd("::", ND.solicits, OTHER.ipv6)),
  row(
    "attack 97: a solicitation with another's MAC",
    NEVER,
    ofNd(OWN.ipv6, ndWord(ND.solicits, OTHER.ipv6, linkLayer(1, OTHER.mac))),
  ),
  row(
    "attack 97: one with its own MAC, then another's",
    NEVER,
    ofNd(
      OWN.ipv6,
      ndWord(ND.solicits, OTHER.ipv6, linkLayer(1, OWN.mac) + linkLayer(1, OTHER.mac)),
    ),
  ),
  row(
    "attack 97: one with a nonce, then another's MAC",
    NEVER,
    ofNd(OWN.ipv6, ndWord(ND.solicits, OTHER.ipv6, NONCE + linkLayer(1, OTHER.mac))),
  ),
  row(
    "an advertisement with its own MAC",
    ALWAYS,
    ofNd(OWN.ipv6, ndWord(ND.advertises, OWN.ipv6, linkLayer(2, OWN.mac))),
  ),
  row("an advertisement without options", ALWAYS, nd(OWN.ipv6, ND.advertises, OWN.ipv6)),
  row(
    "attack 97: an advertisement with another's MAC",
    NEVER,
    ofNd(OWN.ipv6, ndWord(ND.advertises, OWN.ipv6, linkLayer(2, OTHER.mac))),
  ),
  row("an advertisement of another's address", BY_MAC, nd(OWN.ipv6, ND.advertises, OTHER.ipv6)),
  row(
    "a solicitation of routers with its own MAC",
    ALWAYS,
    ofIpv6(ICMPV6, `${number(ND.solicitsRouter, 1)}00000000000000${linkLayer(1, OWN.mac)}`),
  ),
  row(
    "one from no address",
    ALWAYS,
    ofIpv6(ICMPV6, `${number(ND.solicitsRouter, 1)}00000000000000`, "::"),
  ),
  row(
    "attack 97: one with another's MAC",
    NEVER,
    ofIpv6(ICMPV6, `${number(ND.solicitsRouter, 1)}00000000000000${linkLayer(1, OTHER.mac)}`),
  ),
];

/** Large enough to be fragmented in the kernel, which must not read a header across fragments. */
const FILL = "61".repeat(5000);
const [PORTS, SERVER_6] = [`00090009${"00".repeat(16)}`, "0223022200000000"];
const PIM_HELLO = "2000000000010002";
const FOREIGN = ndWord(ND.advertises, OWN.ipv6, linkLayer(2, OTHER.mac));
function own(next: number, content: string): string {
  return ofIpv6(next, content, OWN.ipv6);
}
function first(next: number, content: string): string {
  return own(FRAGMENT, fragment(next, FIRST, content));
}
function behind(next: number, content: string): string {
  return own(DESTINATION, options(next, content));
}
function ofIpv4(protocol: number, content: string): string {
  return ipv4(OWN.ipv4, OTHER.ipv4, { protocol, content });
}

const LARGE_ROWS: readonly Row[] = [
  row("a jumbo frame", ALWAYS, ofIpv4(UDP, PORTS + FILL)),
  row("a jumbo frame of UDP by IPv6", ALWAYS, own(UDP, PORTS + FILL)),
  row("a jumbo frame of TCP by IPv6", ALWAYS, own(TCP, PORTS + FILL)),
  row("a jumbo frame of ESP by IPv6", ALWAYS, own(50, FILL)),
  row("a jumbo fragment", ALWAYS, first(UDP, PORTS + FILL)),
  row("a large router advertisement", NEVER, own(ICMPV6, ADVERTISEMENT + FILL)),
  row("a large one behind options", NEVER, behind(ICMPV6, ADVERTISEMENT + FILL)),
  row("attack 96: a large one in a fragment", NEVER, first(ICMPV6, ADVERTISEMENT + FILL)),
  row("a large answer of a DHCPv6 server", NEVER, own(UDP, SERVER_6 + FILL)),
  row("attack 97: a large advertisement with another's MAC", NEVER, own(ICMPV6, FOREIGN + FILL)),
];

const ROUTER_ROWS: readonly Row[] = [
  row("a redirect of IPv4", NEVER, ofIpv4(1, "05010000")),
  row("a router advertisement of IPv4", NEVER, ofIpv4(1, "0900000001020708")),
  row("an IGMP report, version 1", ALWAYS, ofIgmp(0x12)),
  row("an IGMP report, version 3", ALWAYS, ofIgmp(0x22)),
  row("attack 97: DVMRP", NEVER, ofIgmp(0x13)),
  row("attack 97: a router of multicast, by IGMP", NEVER, ofIgmp(0x30)),
  row("attack 97: PIM", NEVER, ofIpv4(PIM, PIM_HELLO)),
  row("attack 97: PIM by IPv6", NEVER, own(PIM, PIM_HELLO)),
  row("attack 97: PIM behind options", NEVER, behind(PIM, PIM_HELLO)),
  row("attack 97: a router of multicast, by ICMPv6", NEVER, own(ICMPV6, "97000000007d0002")),
  row("attack 97: another's MAC behind options", NEVER, behind(ICMPV6, FOREIGN)),
  row("attack 97: another's MAC in a fragment", NEVER, first(ICMPV6, FOREIGN)),
  row("UDP behind options", ALWAYS, behind(UDP, PORTS)),
  row("an echo in a fragment", ALWAYS, first(ICMPV6, "8000000000010001")),
  row("a DHCPv6 server's word in a fragment", NEVER, first(UDP, SERVER_6)),
  row("ARP behind SNAP", NEVER, `0024aaaa03000000${ofArp({ ip: OTHER.ipv4 })}`),
  row("IPv6 behind SNAP", NEVER, `0048aaaa030000f8${own(ICMPV6, ADVERTISEMENT)}`),
];

const OTHER_ROWS: readonly Row[] = [
  row("a tagged frame", BY_MAC, "8100000588b5"),
  row("ARP behind a tag that means none", NEVER, `81000000${ofArp({ ip: OTHER.ipv4 })}`),
  row("a frame with a tag of a service", NEVER, "88a80005810000060800"),
  row("LLC with a SNAP header", BY_MAC, "0010aaaa0300000c0000"),
  row("CDP", NEVER, { content: "0010aaaa0300000c2000", to: "01:00:0c:cc:cc:cc" }),
  row("spanning tree", NEVER, { content: "0026424203", to: "01:80:c2:00:00:00" }),
  row("spanning tree of Cisco's", NEVER, { content: "0032aaaa03", to: "01:00:0c:cc:cc:cd" }),
  row("LACP", NEVER, { content: "88090101", to: "01:80:c2:00:00:02" }),
  row("EAPOL to the next bridge", NEVER, { content: "888e0101", to: "01:80:c2:00:00:03" }),
  row("LLDP to the next bridge", NEVER, { content: "88cc0207", to: "01:80:c2:00:00:0e" }),
  row("LLDP to all", BY_MAC, "88cc0207"),
  row("MPLS", BY_MAC, "884700010140"),
  row("discovery of PPPoE", BY_MAC, "886311090000"),
  row("wake on LAN", BY_MAC, "0842ffffffffffff"),
  row("a frame of no known type", BY_MAC, "88b5"),
  row("a frame from another's MAC", NEVER, { content: "88b5", from: OTHER.mac }),
];

/** Each frame is judged with known addresses and with the MAC alone. */
export const FRAMES: readonly Row[] = [
  ...ARP_ROWS,
  ...IPV4_ROWS,
  ...IPV6_ROWS,
  ...ND_ROWS,
  ...LARGE_ROWS,
  ...ROUTER_ROWS,
  ...OTHER_ROWS,
];
