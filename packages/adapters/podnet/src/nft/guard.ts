// SPDX-License-Identifier: Apache-2.0
// What a guest may send, as rules at its tap. Why each: docs/design/guest-traffic.md.
import { networkOf, parseIp, type IpPrefix } from "@patchbay/api";
import { AppError, type SendGuard } from "@patchbay/core";
import { ipv4Chains } from "./guard-ipv4.ts";
import { ipv6Chains, prefixText } from "./guard-ipv6.ts";
import { macDigits, rawNumber } from "./raw.ts";
import { counted } from "./refusals.ts";
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
/** ARP whose fields are where the rules look for them: Ethernet and IPv4. */
const PLAIN_ARP: readonly string[] = [
  "arp htype != 1 drop",
  "arp ptype != ip drop",
  "arp hlen != 6 drop",
  "arp plen != 4 drop",
];
/** What says that a guest has moved. Source: QEMU net/announce.c */
const RARP = "ether type 0x8035";
/** Ethernet and IPv4, and a question: who answers one tells others their addresses. Source: RFC 903 */
const RARP_QUESTION = "0001080006040003";
/** IP in the wrapping of IEEE 802 (RFC 1042, 802.1H), which some receivers open and no rule here does. */
const WRAPPED: readonly string[] = [
  "@ll,96,16 < 0x600 @ll,112,48 0xaaaa03000000 drop",
  "@ll,96,16 < 0x600 @ll,112,48 0xaaaa030000f8 drop",
];
/** Tagged frames are on networks of their own, but for tag 0, which receivers take for none. */
const OF_ANY_TYPE: readonly string[] = [
  "ether type 8021ad drop",
  "vlan id 0 drop",
  ...WRAPPED,
  "accept",
];

/** The table of the tap of that name. */
export function guardNameOf(tapName: string): TableName {
  return { family: "netdev", name: `patchbay-${tapName}` };
}

/** Addresses as prefixes whose rest is zero: the way that nft prints them. */
function prefixesOf(addresses: readonly string[]): readonly IpPrefix[] {
  return addresses.map((text) => {
    const prefix = parseIp(text);
    if (prefix !== undefined && prefix.length > 0) return networkOf(prefix);
    throw new AppError("PODNET_ARGUMENT_INVALID", {
      reason: `${JSON.stringify(text)} is not an IP address`,
    });
  });
}

/** QEMU's announcement names the guest's MAC twice, and no address. */
function rarpChain(guard: SendGuard): Chain {
  const none = "0".repeat(8);
  const rules = guard.macs.map(macDigits).map((mac) => {
    const [head, rest] = [RARP_QUESTION + mac, none + mac + none].map(rawNumber);
    return `@nh,0,112 ${head ?? ""} @nh,112,112 ${rest ?? ""} accept`;
  });
  return { name: "rarp", rules };
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
        `${RARP} goto rarp`,
        ...(guard.addresses === undefined ? OF_ANY_TYPE : []),
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
      rarpChain(guard),
      ...ipv4Chains(guard, ipv4),
      ...ipv6Chains(guard, ipv6),
    ].map(counted),
  };
}
