// SPDX-License-Identifier: Apache-2.0
// What a guest may send of IPv4, as rules. Why each: docs/design/guest-traffic.md.
import type { SendGuard } from "@patchbay/core";
import type { Chain } from "./table.ts";

/** Answers of a DHCP server; a client only sends from 68 to 67. */
const DHCP_ANSWERS: readonly string[] = ["udp sport 67 drop", "udp dport 68 drop"];
/** Protocols by number: names are looked up in /etc/protocols, which an image need not have. */
const [IGMP, TCP, UDP, PIM] = [2, 6, 17, 103];
/** What only a router sends; those of multicast send PIM to each other, and switches send all groups to where it comes from. */
const ROUTER_WORDS: readonly string[] = [
  "icmp type redirect drop",
  "icmp type router-advertisement drop",
  `meta l4proto ${String(PIM)} drop`,
];
/** All that a receiver of multicast says; the rest is of routers: queries, DVMRP, PIM, RFC 4286. */
const REPORTS = [
  "membership-report-v1",
  "membership-report-v2",
  "leave-group",
  "membership-report-v3",
] as const;

/** Chains of IPv4; the first one is named `ipv4`. `own`: the addresses that are the guest's. */
export function ipv4Chains(guard: SendGuard, own: readonly string[]): readonly Chain[] {
  const sources = [
    ...own.map((address) => `ip saddr ${address} accept`),
    "ip saddr 0.0.0.0 udp dport 67 accept",
  ];
  const judged = [
    `meta l4proto ${String(TCP)} goto ipv4-source`,
    `meta l4proto ${String(UDP)} goto ipv4-udp`,
    `meta l4proto ${String(IGMP)} goto ipv4-igmp`,
    ...ROUTER_WORDS,
  ];
  const reports = REPORTS.map((type) => `meta protocol ip igmp type ${type} goto ipv4-source`);
  return [
    { name: "ipv4", rules: [...(guard.serves ? [] : judged), "goto ipv4-source"] },
    ...(guard.serves
      ? []
      : [
          { name: "ipv4-udp", rules: [...DHCP_ANSWERS, "goto ipv4-source"] },
          { name: "ipv4-igmp", rules: reports },
        ]),
    { name: "ipv4-source", rules: guard.addresses === undefined ? ["accept"] : sources },
  ];
}
