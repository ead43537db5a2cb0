// SPDX-License-Identifier: Apache-2.0
// Which rule of a guest's send guard has refused how many frames: each that refuses counts, and none that lets through does.
import type { RefusedFrames } from "@patchbay/core";
import type { Chain } from "./table.ts";

/** What a chain's own refusals are about, and what comes to its end. */
interface Refused {
  readonly inside?: string;
  readonly atEnd?: string;
}

const [OF_SWITCHES, OF_ROUTERS] = ["words of switches", "words of routers"];
const OF_SERVERS = "answers of DHCP servers";
const NO_NEIGHBOUR = "neighbour discovery that names another MAC, or is not plain";
const BY_CHAIN: Readonly<Record<string, Refused>> = {
  "from-guest": { inside: OF_SWITCHES, atEnd: "frames from another MAC" },
  "of-guest": { inside: "frames in a wrapping", atEnd: "frames that are neither ARP nor IP" },
  "arp-sender": { inside: "ARP that is not plain", atEnd: "ARP that names another MAC" },
  "arp-address": { atEnd: "ARP from another address" },
  rarp: { atEnd: "RARP that names another MAC" },
  ipv4: { inside: OF_ROUTERS },
  "ipv4-udp": { inside: OF_SERVERS },
  "ipv4-igmp": { atEnd: OF_ROUTERS },
  "ipv4-source": { atEnd: "IPv4 from another address" },
  ipv6: { inside: OF_ROUTERS },
  "ipv6-udp": { inside: OF_SERVERS },
  "ipv6-icmp": { inside: OF_ROUTERS },
  "nd-asks-router": { atEnd: NO_NEIGHBOUR },
  "nd-solicits": { atEnd: NO_NEIGHBOUR },
  "nd-advertises": { atEnd: NO_NEIGHBOUR },
  "nd-target": { atEnd: "neighbour discovery about another address" },
  "ipv6-fragment": { inside: "fragments of more than one header" },
  "ipv6-first-udp": { inside: OF_SERVERS },
  "ipv6-first-icmp": { inside: OF_ROUTERS },
  "ipv6-behind": { inside: "IPv6 behind options that may not be sent", atEnd: "broken IPv6" },
  "ipv6-source": { atEnd: "IPv6 from another address" },
};

/** Where frames end that name another address of IPv4. */
const OF_IPV4_ADDRESS: readonly string[] = ["arp-address", "ipv4-source"];

const ENDS = /^(?:accept|drop|goto \S+)$/;
const REFUSES = "counter drop";

/** The chain with a counter at each rule that refuses, and at its end where nothing else is. */
export function counted({ rules, ...chain }: Chain): Chain {
  const told = rules.map((rule) => rule.replace(/(^| )drop$/, `$1${REFUSES}`));
  const isOpen = !ENDS.test(rules.at(-1) ?? "");
  return { ...chain, rules: isOpen ? [...told, REFUSES] : told };
}

/** Frames that were refused for one reason, until now. */
export type Refusal = Omit<RefusedFrames, "lately">;

/** Of one line within a chain, when its rule has refused any. */
function refusalIn(chain: string, line: string): Refusal | undefined {
  const [, rule, packets = "0"] = /^\t\t(.*)counter packets (\d+) bytes \d+ drop$/.exec(line) ?? [];
  if (rule === undefined || packets === "0") return undefined;
  const { inside, atEnd } = BY_CHAIN[chain] ?? {};
  const what = (rule === "" ? atEnd : inside) ?? chain;
  return { what, frames: Number(packets), isOfIpv4Address: OF_IPV4_ADDRESS.includes(chain) };
}

/** What nft prints of a table whose chains are {@link counted}, with its counters: why frames were refused, the most frequent first. */
export function parseRefusals(text: string): readonly Refusal[] {
  const refusals = new Map<string, Refusal>();
  let chain = "";
  for (const line of text.split("\n")) {
    chain = /^\tchain (\S+) \{$/.exec(line)?.[1] ?? chain;
    const refusal = refusalIn(chain, line);
    if (refusal === undefined) continue;
    const { what, frames } = refusal;
    refusals.set(what, { ...refusal, frames: frames + (refusals.get(what)?.frames ?? 0) });
  }
  return [...refusals.values()].toSorted(
    (left, right) => right.frames - left.frames || (left.what < right.what ? -1 : 1),
  );
}
