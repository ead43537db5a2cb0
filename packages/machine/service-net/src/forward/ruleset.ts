// SPDX-License-Identifier: Apache-2.0
// What is forwarded, as text for `nft -f`: the whole table, or what has changed of it. Each text is one step for the
// kernel. Pure.
import { createHash } from "node:crypto";
import type { Forward } from "./forwards.ts";

/** The machine's part of the table. */
export interface TableSettings {
  /** Name of the table, which is Patchbay's alone. */
  readonly table: string;
  /** Network of Services, in CIDR form. */
  readonly serviceNetwork: string;
  /** Address of the name server, in that network. */
  readonly dns: string;
  /** Network of the pods, in CIDR form, and their bridge on the host. */
  readonly podNetwork: string;
  readonly bridge: string;
}

/** Marks a packet on its way through this table; it is taken off again where the way ends. */
const MARK = "0x1000";

function chainOf({ name }: Forward): string {
  return `service-${createHash("sha256").update(name).digest("hex").slice(0, 16)}`;
}

/** By chance, or by who asks: the choice for one client stays while the endpoints do. */
function choiceOf({ endpoints, isSticky }: Forward): string {
  const count = String(endpoints.length);
  const number = isSticky ? `jhash ip saddr mod ${count} seed 0x1` : `numgen random mod ${count}`;
  const targets = endpoints.map((endpoint, index) => `${String(index)} : ${endpoint}`);
  return `${number} map { ${targets.join(", ")} }`;
}

function rulesOf(forward: Forward): readonly string[] {
  return [
    `meta mark set meta mark | ${MARK} comment "${forward.name}"`,
    `meta l4proto ${forward.protocol} dnat ip addr . port to ${choiceOf(forward)}`,
  ];
}

function addressElement(forward: Forward): string {
  const { address, protocol, port } = forward;
  return `${address} . ${protocol} . ${String(port)}`;
}

function nodePortElement({ protocol, nodePort }: Forward): string | undefined {
  return nodePort === undefined ? undefined : `${protocol} . ${String(nodePort)}`;
}

function mapText(name: string, type: string, elements: readonly string[]): readonly string[] {
  const list = elements.length === 0 ? [] : [`elements = { ${elements.join(", ")} }`];
  return [`map ${name} {`, `type ${type} : verdict`, ...list, "}"];
}

function baseChain(name: string, at: string, rules: readonly string[]): readonly string[] {
  return [`chain ${name} {`, `type ${at}; policy accept;`, ...rules, "}"];
}

/**
 * Where connections enter and leave. Who asks from the pods' network, or from this host, is hidden behind the bridge's
 * address: a pod would answer its neighbour on the bridge, past this host, which has to turn the answer back. Who asks
 * from elsewhere at a port of the node stays visible to pods.
 */
function hooks(settings: TableSettings): readonly string[] {
  const { serviceNetwork, podNetwork, dns, bridge } = settings;
  const isDirect = `ip daddr ${podNetwork} ip saddr != ${podNetwork} fib saddr type != local`;
  return [
    "chain services {",
    "ip daddr . meta l4proto . th dport vmap @addresses",
    "ip daddr != 127.0.0.0/8 fib daddr type local meta l4proto . th dport vmap @node-ports",
    "}",
    ...baseChain("prerouting", "nat hook prerouting priority dstnat - 1", ["jump services"]),
    ...baseChain("output", "nat hook output priority -101", ["jump services"]),
    ...baseChain("postrouting", "nat hook postrouting priority srcnat - 1", [
      `meta mark & ${MARK} == 0x0 return`,
      `meta mark set meta mark ^ ${MARK}`,
      `ct original ip daddr != ${serviceNetwork} ${isDirect} return`,
      "masquerade",
    ]),
    "chain unanswered {",
    `ip daddr != ${serviceNetwork} return`,
    `ip daddr ${dns} return`,
    "meta l4proto tcp reject with tcp reset",
    "reject",
    "}",
    ...baseChain("forward", "filter hook forward priority filter", ["jump unanswered"]),
    ...baseChain("leave", "filter hook output priority filter", ["jump unanswered"]),
    // What is not of this machine gets no answers from its name server. Answers to this host, which asks Services from that
    // address, come from wherever their endpoints are.
    ...baseChain("enter", "filter hook input priority filter", [
      `ip daddr ${dns} iifname != { "lo", "${bridge}" } ct direction original drop`,
    ]),
  ];
}

/** The whole table, in the place of one of that name. */
export function tableText(settings: TableSettings, forwards: readonly Forward[]): string {
  const head = `table ip ${settings.table}`;
  const addresses = forwards.map(
    (forward) => `${addressElement(forward)} : goto ${chainOf(forward)}`,
  );
  const ports = forwards.flatMap((forward) => {
    const element = nodePortElement(forward);
    return element === undefined ? [] : [`${element} : goto ${chainOf(forward)}`];
  });
  return [
    head,
    `delete ${head}`,
    `${head} {`,
    ...forwards.flatMap((forward) => [`chain ${chainOf(forward)} {`, ...rulesOf(forward), "}"]),
    ...mapText("addresses", "ipv4_addr . inet_proto . inet_service", addresses),
    ...mapText("node-ports", "inet_proto . inet_service", ports),
    ...hooks(settings),
    "}",
    "",
  ].join("\n");
}

/** Takes the table away; that it is not there is no failure. */
export function removalText(table: string): string {
  return `table ip ${table}\ndelete table ip ${table}\n`;
}

function elements(verb: "add" | "delete", table: string, forward: Forward): readonly string[] {
  const target = verb === "add" ? ` : goto ${chainOf(forward)}` : "";
  const nodePort = nodePortElement(forward);
  return [
    `${verb} element ip ${table} addresses { ${addressElement(forward)}${target} }`,
    ...(nodePort === undefined
      ? []
      : [`${verb} element ip ${table} node-ports { ${nodePort}${target} }`]),
  ];
}

function hasSameWays(one: Forward, other: Forward | undefined): boolean {
  return (
    other !== undefined &&
    addressElement(one) === addressElement(other) &&
    one.nodePort === other.nodePort
  );
}

function hasSameRules(one: Forward, other: Forward | undefined): boolean {
  return other !== undefined && rulesOf(one).join("\n") === rulesOf(other).join("\n");
}

function mapByName(forwards: readonly Forward[]): ReadonlyMap<string, Forward> {
  return new Map(forwards.map((forward) => [forward.name, forward]));
}

/** What makes the table that has `before` have `after`; empty: nothing does. Nothing else of it is touched. */
export function changeText(
  { table }: TableSettings,
  before: readonly Forward[],
  after: readonly Forward[],
): string {
  const [old, wanted] = [mapByName(before), mapByName(after)];
  const inTable = `ip ${table}`;
  const leaving = before.filter((forward) => !hasSameWays(forward, wanted.get(forward.name)));
  const coming = after.filter((forward) => !hasSameWays(forward, old.get(forward.name)));
  const changed = after.filter((forward) => !hasSameRules(forward, old.get(forward.name)));
  const gone = before.filter(({ name }) => !wanted.has(name));
  const lines = [
    ...leaving.flatMap((forward) => elements("delete", table, forward)),
    ...changed.flatMap((forward) => [
      `add chain ${inTable} ${chainOf(forward)}`,
      `flush chain ${inTable} ${chainOf(forward)}`,
      ...rulesOf(forward).map((rule) => `add rule ${inTable} ${chainOf(forward)} ${rule}`),
    ]),
    ...coming.flatMap((forward) => elements("add", table, forward)),
    ...gone.flatMap((forward) => [
      `flush chain ${inTable} ${chainOf(forward)}`,
      `delete chain ${inTable} ${chainOf(forward)}`,
    ]),
  ];
  return lines.map((line) => `${line}\n`).join("");
}
