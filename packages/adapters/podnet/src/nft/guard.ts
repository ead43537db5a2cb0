// SPDX-License-Identifier: Apache-2.0
// nftables rules at a guest's tap that restrict what the guest may send. docs/design/guest-traffic.md explains them.
import { type IpPrefix, toNetworkAddress, parseIp } from "@patchbay/api/values";
import { AppError } from "@patchbay/base";
import type { SendGuard } from "@patchbay/core/nics";
import { addDropCounters } from "./counters.ts";
import { buildIpv6Chains, printPrefix } from "./guard-ipv6.ts";
import { type Chain, toMacDigits, printRawNumber, type Table, type TableName } from "./table.ts";

/** Rules that drop answers of DHCP servers, which are sent from port 67 to port 68. */
const DHCP_ANSWERS: readonly string[] = ["udp sport 67 drop", "udp dport 68 drop"];
/** Protocol numbers. Rules do not use names, because nft looks names up in /etc/protocols, which an image may lack. */
const [IGMP, TCP, UDP, PIM] = [2, 6, 17, 103];
/** Rules that drop messages of routers. With PIM, a guest could make a switch send it the traffic of all multicast groups. */
const ROUTER_RULES: readonly string[] = [
  "icmp type redirect drop",
  "icmp type router-advertisement drop",
  `meta l4proto ${String(PIM)} drop`,
];
/** IGMP messages of receivers. Only routers send other types (queries, DVMRP, PIM, RFC 4286). */
const RECEIVER_REPORTS = [
  "membership-report-v1",
  "membership-report-v2",
  "leave-group",
  "membership-report-v3",
] as const;

function buildIpv4Chains(guard: SendGuard, addresses: readonly string[]): readonly Chain[] {
  const sources = [
    ...addresses.map((address) => `ip saddr ${address} accept`),
    "ip saddr 0.0.0.0 udp dport 67 accept",
  ];
  const restrictions = [
    `meta l4proto ${String(TCP)} goto ipv4-source`,
    `meta l4proto ${String(UDP)} goto ipv4-udp`,
    `meta l4proto ${String(IGMP)} goto ipv4-igmp`,
    ...ROUTER_RULES,
  ];
  const reports = RECEIVER_REPORTS.map(
    (type) => `meta protocol ip igmp type ${type} goto ipv4-source`,
  );
  return [
    { name: "ipv4", rules: [...(guard.allowsServers ? [] : restrictions), "goto ipv4-source"] },
    ...(guard.allowsServers
      ? []
      : [
          { name: "ipv4-udp", rules: [...DHCP_ANSWERS, "goto ipv4-source"] },
          { name: "ipv4-igmp", rules: reports },
        ]),
    { name: "ipv4-source", rules: guard.addresses === undefined ? ["accept"] : sources },
  ];
}

/**
 * Rules that drop the control frames of switches, by destination MAC: the reserved addresses of 802.1D (spanning tree,
 * pause, LACP, LLDP, 802.1X) and Cisco's addresses (CDP, VTP, DTP, UDLD, spanning tree).
 */
const NO_SWITCH_FRAMES: readonly string[] = [
  "ether daddr & ff:ff:ff:ff:ff:f0 == 01:80:c2:00:00:00 drop",
  "ether daddr 01:00:0c:cc:cc:cc drop",
  "ether daddr 01:00:0c:cc:cc:cd drop",
];
/** Rules that drop ARP for protocols other than Ethernet and IPv4, because the ARP rules match fields at fixed offsets. */
const ONLY_ETHERNET_IPV4_ARP: readonly string[] = [
  "arp htype != 1 drop",
  "arp ptype != ip drop",
  "arp hlen != 6 drop",
  "arp plen != 4 drop",
];
/** Matches RARP frames, with which QEMU announces a migrated guest. Source: QEMU net/announce.c */
const RARP = "ether type 0x8035";
/** Header of a RARP request for Ethernet and IPv4. Replies are not accepted, because they assign addresses. Source: RFC 903 */
const RARP_REQUEST_HEADER = "0001080006040003";
/** Rules that drop IP in IEEE 802 encapsulation (RFC 1042, 802.1H), which some receivers decapsulate. */
const NO_ENCAPSULATED_IP: readonly string[] = [
  "@ll,96,16 < 0x600 @ll,112,48 0xaaaa03000000 drop",
  "@ll,96,16 < 0x600 @ll,112,48 0xaaaa030000f8 drop",
];
/**
 * Rules for EtherTypes other than ARP, RARP and IP. They apply only if the guest may use any address. Frames with VLAN
 * ID 0 are dropped, because receivers treat them as untagged.
 */
const OTHER_TYPE_RULES: readonly string[] = [
  "ether type 8021ad drop",
  "vlan id 0 drop",
  ...NO_ENCAPSULATED_IP,
  "accept",
];

export function guardTableName(tapName: string): TableName {
  return { family: "netdev", name: `patchbay-${tapName}` };
}

function parsePrefixes(addresses: readonly string[]): readonly IpPrefix[] {
  return addresses.map((text) => {
    const prefix = parseIp(text);
    if (prefix !== undefined && prefix.length > 0) return toNetworkAddress(prefix);
    throw new AppError("PODNET_ARGUMENT_INVALID", {
      reason: `${JSON.stringify(text)} is not an IP address`,
    });
  });
}

/** Accepts QEMU's RARP announcement, which contains the guest's MAC twice and no IP address. */
function buildRarpChain(guard: SendGuard): Chain {
  const zeroAddress = "0".repeat(8);
  const rules = guard.macs.map(toMacDigits).map((mac) => {
    const [firstHalf, secondHalf] = [
      RARP_REQUEST_HEADER + mac,
      zeroAddress + mac + zeroAddress,
    ].map(printRawNumber);
    return `@nh,0,112 ${firstHalf ?? ""} @nh,112,112 ${secondHalf ?? ""} accept`;
  });
  return { name: "rarp", rules };
}

function buildArpChains(guard: SendGuard, addresses: readonly string[]): readonly Chain[] {
  const verdict = guard.addresses === undefined ? "accept" : "goto arp-address";
  const senderRules = guard.macs.map((mac) => `arp saddr ether ${mac} ${verdict}`);
  return [
    { name: "arp-sender", rules: [...ONLY_ETHERNET_IPV4_ARP, ...senderRules] },
    {
      name: "arp-address",
      rules: [
        ...addresses.map((address) => `arp saddr ip ${address} accept`),
        // Accepts ARP probes only for the guest's own addresses. A host that receives a probe for the address that it is about to
        // use would not use the address. Source: RFC 5227, 2.1.1
        ...addresses.map((address) => `arp saddr ip 0.0.0.0 arp daddr ip ${address} accept`),
      ],
    },
  ];
}

/** Builds chains that filter frames at the tap's ingress hook. Frames that no rule accepts are dropped. */
function buildEntryChains(tapName: string, guard: SendGuard): readonly Chain[] {
  return [
    {
      name: "from-guest",
      hook: {
        type: "filter",
        point: `ingress device "${tapName}" priority filter`,
        policy: "drop",
      },
      rules: [...NO_SWITCH_FRAMES, ...guard.macs.map((mac) => `ether saddr ${mac} goto of-guest`)],
    },
    {
      name: "of-guest",
      rules: [
        "ether type arp goto arp-sender",
        "ether type ip goto ipv4",
        "ether type ip6 goto ipv6",
        `${RARP} goto rarp`,
        ...(guard.addresses === undefined ? OTHER_TYPE_RULES : []),
      ],
    },
  ];
}

/** Builds the send guard's table. Each rule matches one address, because nft rejects sets with overlapping elements. */
export function buildGuardTable(tapName: string, guard: SendGuard): Table {
  const prefixes = parsePrefixes(guard.addresses ?? []);
  const ipv4 = prefixes.filter(({ version }) => version === 4).map(printPrefix);
  const ipv6 = prefixes.filter(({ version }) => version === 6);
  return {
    ...guardTableName(tapName),
    chains: [
      ...buildEntryChains(tapName, guard),
      ...buildArpChains(guard, ipv4),
      buildRarpChain(guard),
      ...buildIpv4Chains(guard, ipv4),
      ...buildIpv6Chains(guard, ipv6),
    ].map(addDropCounters),
  };
}
