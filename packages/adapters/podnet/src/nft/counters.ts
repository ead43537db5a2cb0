// SPDX-License-Identifier: Apache-2.0
// Counters in nftables rules: frames that a guest's send guard refused, and DHCP requests.
import type { RefusedFrames } from "@patchbay/core/doctor";
import type { Chain } from "./table.ts";

interface ChainReasons {
  readonly inside?: string;
  readonly atEnd?: string;
}

const [SWITCH_MESSAGES, ROUTER_MESSAGES] = ["words of switches", "words of routers"];
const SERVER_ANSWERS = "answers of DHCP servers";
const BAD_NEIGHBOR_DISCOVERY = "neighbour discovery that names another MAC, or is not plain";
const REASONS_BY_CHAIN: Readonly<Record<string, ChainReasons>> = {
  "from-guest": { inside: SWITCH_MESSAGES, atEnd: "frames from another MAC" },
  "of-guest": { inside: "frames in a wrapping", atEnd: "frames that are neither ARP nor IP" },
  "arp-sender": { inside: "ARP that is not plain", atEnd: "ARP that names another MAC" },
  "arp-address": { atEnd: "ARP from another address" },
  rarp: { atEnd: "RARP that names another MAC" },
  ipv4: { inside: ROUTER_MESSAGES },
  "ipv4-udp": { inside: SERVER_ANSWERS },
  "ipv4-igmp": { atEnd: ROUTER_MESSAGES },
  "ipv4-source": { atEnd: "IPv4 from another address" },
  ipv6: { inside: ROUTER_MESSAGES },
  "ipv6-udp": { inside: SERVER_ANSWERS },
  "ipv6-icmp": { inside: ROUTER_MESSAGES },
  "nd-asks-router": { atEnd: BAD_NEIGHBOR_DISCOVERY },
  "nd-solicits": { atEnd: BAD_NEIGHBOR_DISCOVERY },
  "nd-advertises": { atEnd: BAD_NEIGHBOR_DISCOVERY },
  "nd-target": { atEnd: "neighbour discovery about another address" },
  "ipv6-fragment": { inside: "fragments of more than one header" },
  "ipv6-first-udp": { inside: SERVER_ANSWERS },
  "ipv6-first-icmp": { inside: ROUTER_MESSAGES },
  "ipv6-behind": { inside: "IPv6 behind options that may not be sent", atEnd: "broken IPv6" },
  "ipv6-source": { atEnd: "IPv6 from another address" },
};

const IPV4_ADDRESS_CHAINS: readonly string[] = ["arp-address", "ipv4-source"];

const FINAL_RULE = /^(?:accept|drop|goto \S+)$/;
const COUNTED_DROP = "counter drop";

/** Adds a counter to each rule that drops, and a counting drop at the end of an open chain. */
export function addDropCounters({ rules, ...chain }: Chain): Chain {
  const counted = rules.map((rule) => rule.replace(/(^| )drop$/, `$1${COUNTED_DROP}`));
  const isOpen = !FINAL_RULE.test(rules.at(-1) ?? "");
  return { ...chain, rules: isOpen ? [...counted, COUNTED_DROP] : counted };
}

export type Refusal = Omit<RefusedFrames, "recentFrames">;

function parseRefusal(chain: string, line: string): Refusal | undefined {
  const [, rule, packets = "0"] = /^\t\t(.*)counter packets (\d+) bytes \d+ drop$/.exec(line) ?? [];
  if (rule === undefined || packets === "0") return undefined;
  const { inside, atEnd } = REASONS_BY_CHAIN[chain] ?? {};
  const what = (rule === "" ? atEnd : inside) ?? chain;
  return {
    description: what,
    frames: Number(packets),
    isOfIpv4Address: IPV4_ADDRESS_CHAINS.includes(chain),
  };
}

/** Parses the refusals in a printed table whose chains are {@link addDropCounters}, most frequent first. */
export function parseRefusals(text: string): readonly Refusal[] {
  const refusals = new Map<string, Refusal>();
  let chain = "";
  for (const line of text.split("\n")) {
    chain = /^\tchain (\S+) \{$/.exec(line)?.[1] ?? chain;
    const refusal = parseRefusal(chain, line);
    if (refusal === undefined) continue;
    const { description: what, frames } = refusal;
    refusals.set(what, { ...refusal, frames: frames + (refusals.get(what)?.frames ?? 0) });
  }
  return [...refusals.values()].toSorted(
    (left, right) => right.frames - left.frames || (left.description < right.description ? -1 : 1),
  );
}

/** Matches requests of DHCP clients. Source: RFC 2131 section 4.1, RFC 8415 section 7.2 */
export const DHCP_REQUESTS = { ipv4: "udp dport 67", ipv6: "udp dport 547" } as const;

const COUNTED = /^\t\t.* udp dport (?:67|547) counter packets (\d+) bytes \d+(?: accept)?$/gm;

/** Sums the counters of DHCP requests in a table that `nft list` printed. They survive restarts of the DHCP server. */
export function parseDhcpRequests(text: string): number {
  return [...text.matchAll(COUNTED)].reduce((sum, [, packets]) => sum + Number(packets), 0);
}
