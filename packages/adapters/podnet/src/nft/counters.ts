// SPDX-License-Identifier: Apache-2.0
// Adds and reads counters in nftables rules: for a guest's dropped frames, and for DHCP requests.
import type { RefusedFrames } from "@patchbay/core/doctor";
import type { Chain } from "./table.ts";

interface ChainReasons {
  readonly dropRule?: string;
  readonly chainEnd?: string;
}

const [SWITCH_MESSAGES, ROUTER_MESSAGES] = ["messages between switches", "messages of routers"];
const SERVER_ANSWERS = "answers of DHCP servers";
const BAD_NEIGHBOR_DISCOVERY = "neighbor discovery with another MAC or with other options";
const REASONS_BY_CHAIN: Readonly<Record<string, ChainReasons>> = {
  "from-guest": { dropRule: SWITCH_MESSAGES, chainEnd: "frames from another MAC" },
  "of-guest": { dropRule: "encapsulated frames", chainEnd: "frames that are neither ARP nor IP" },
  "arp-sender": {
    dropRule: "ARP other than for Ethernet and IPv4",
    chainEnd: "ARP with another MAC",
  },
  "arp-address": { chainEnd: "ARP from another address" },
  rarp: { chainEnd: "RARP with another MAC" },
  ipv4: { dropRule: ROUTER_MESSAGES },
  "ipv4-udp": { dropRule: SERVER_ANSWERS },
  "ipv4-igmp": { chainEnd: ROUTER_MESSAGES },
  "ipv4-source": { chainEnd: "IPv4 from another address" },
  ipv6: { dropRule: ROUTER_MESSAGES },
  "ipv6-udp": { dropRule: SERVER_ANSWERS },
  "ipv6-icmp": { dropRule: ROUTER_MESSAGES },
  "nd-asks-router": { chainEnd: BAD_NEIGHBOR_DISCOVERY },
  "nd-solicits": { chainEnd: BAD_NEIGHBOR_DISCOVERY },
  "nd-advertises": { chainEnd: BAD_NEIGHBOR_DISCOVERY },
  "nd-target": { chainEnd: "neighbor discovery about another address" },
  "ipv6-fragment": { dropRule: "fragments with several headers" },
  "ipv6-first-udp": { dropRule: SERVER_ANSWERS },
  "ipv6-first-icmp": { dropRule: ROUTER_MESSAGES },
  "ipv6-behind": {
    dropRule: "forbidden IPv6 messages after extension headers",
    chainEnd: "malformed IPv6",
  },
  "ipv6-source": { chainEnd: "IPv6 from another address" },
};

/** Chains of the table of a NIC's network policies. A policy drops all that it does not allow, so the direction is the reason. */
const POLICY_DIRECTIONS: readonly (readonly [string, string])[] = [
  ["from-guest", "from the guest"],
  ["egress4", "from the guest"],
  ["egress6", "from the guest"],
  ["to-guest", "to the guest"],
  ["ingress4", "to the guest"],
  ["ingress6", "to the guest"],
];
const POLICY_REASONS: Readonly<Record<string, ChainReasons>> = Object.fromEntries(
  POLICY_DIRECTIONS.map(([chain, text]) => [chain, { dropRule: text, chainEnd: text }]),
);

const IPV4_ADDRESS_CHAINS: readonly string[] = ["arp-address", "ipv4-source"];

const FINAL_RULE = /^(?:accept|drop|goto \S+)$/;
const COUNTED_DROP = "counter drop";

export function addDropCounters({ rules, ...chain }: Chain): Chain {
  const counted = rules.map((rule) => rule.replace(/(^| )drop$/, `$1${COUNTED_DROP}`));
  const isFinalRuleMissing = !FINAL_RULE.test(rules.at(-1) ?? "");
  return { ...chain, rules: isFinalRuleMissing ? [...counted, COUNTED_DROP] : counted };
}

export type Refusal = Omit<RefusedFrames, "recentFrames">;

function parseRefusal(
  chain: string,
  line: string,
  reasons: Readonly<Record<string, ChainReasons>>,
): Refusal | undefined {
  const [, rule, packets = "0"] = /^\t\t(.*)counter packets (\d+) bytes \d+ drop$/.exec(line) ?? [];
  if (rule === undefined || packets === "0") return undefined;
  const { dropRule, chainEnd } = reasons[chain] ?? {};
  const description = (rule === "" ? chainEnd : dropRule) ?? chain;
  return {
    description,
    frames: Number(packets),
    isOfIpv4Address: IPV4_ADDRESS_CHAINS.includes(chain),
  };
}

/** Parses the counters that {@link addDropCounters} added to a printed table. Returns the largest counts first. */
export function parseRefusals(text: string, reasons = REASONS_BY_CHAIN): readonly Refusal[] {
  const refusals = new Map<string, Refusal>();
  let chain = "";
  for (const line of text.split("\n")) {
    chain = /^\tchain (\S+) \{$/.exec(line)?.[1] ?? chain;
    const refusal = parseRefusal(chain, line, reasons);
    if (refusal === undefined) continue;
    const { description, frames } = refusal;
    refusals.set(description, {
      ...refusal,
      frames: frames + (refusals.get(description)?.frames ?? 0),
    });
  }
  return [...refusals.values()].toSorted(
    (a, b) => b.frames - a.frames || (a.description < b.description ? -1 : 1),
  );
}

/** Parses the counters of a table of network policies, by direction. */
export function parsePolicyDrops(text: string): readonly Refusal[] {
  return parseRefusals(text, POLICY_REASONS);
}

/** nft expressions that match requests from DHCP clients. Source: RFC 2131 section 4.1, RFC 8415 section 7.2 */
export const DHCP_REQUESTS = { ipv4: "udp dport 67", ipv6: "udp dport 547" } as const;

const COUNTED_REQUEST =
  /^\t\t.* udp dport (?:67|547) counter packets (\d+) bytes \d+(?: accept)?$/gm;

/** Sums the DHCP requests in a printed table. A restart of the DHCP server does not reset these counters. */
export function parseDhcpRequests(text: string): number {
  return [...text.matchAll(COUNTED_REQUEST)].reduce((sum, [, packets]) => sum + Number(packets), 0);
}
