// SPDX-License-Identifier: Apache-2.0
// Input of `nft -f` that replaces the whole table or changes a part of it.
import { createHash } from "node:crypto";
import type { Forward } from "./forwards.ts";

export interface TableSettings {
  readonly table: string;
  /** Network of Services, in CIDR notation. */
  readonly serviceNetwork: string;
  readonly dns: string;
  /** Network of the pods, in CIDR notation. */
  readonly podNetwork: string;
  readonly bridge: string;
}

/** Mark of packets that this table forwards. The postrouting chain removes the mark. */
const MARK = "0x1000";

function chainName({ name }: Forward): string {
  return `service-${createHash("sha256").update(name).digest("hex").slice(0, 16)}`;
}

function printChoice({ endpoints, isSticky }: Forward): string {
  const count = String(endpoints.length);
  const number = isSticky ? `jhash ip saddr mod ${count} seed 0x1` : `numgen random mod ${count}`;
  const targets = endpoints.map((endpoint, index) => `${String(index)} : ${endpoint}`);
  return `${number} map { ${targets.join(", ")} }`;
}

function printRules(forward: Forward): readonly string[] {
  return [
    `meta mark set meta mark | ${MARK} comment "${forward.name}"`,
    `meta l4proto ${forward.protocol} dnat ip addr . port to ${printChoice(forward)}`,
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

function baseChain(name: string, hook: string, rules: readonly string[]): readonly string[] {
  return [`chain ${name} {`, `type ${hook}; policy accept;`, ...rules, "}"];
}

/**
 * Builds the base chains. The chains masquerade forwarded connections: otherwise, a pod would answer another pod directly
 * over the bridge, and the host could not translate the addresses of the answer.
 */
function printBaseChains(settings: TableSettings): readonly string[] {
  const { serviceNetwork, podNetwork, dns, bridge } = settings;
  const directMatch = `ip daddr ${podNetwork} ip saddr != ${podNetwork} fib saddr type != local`;
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
      `ct original ip daddr != ${serviceNetwork} ${directMatch} return`,
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
    // Drops DNS queries from other machines, but accepts answers to this host's own queries.
    ...baseChain("enter", "filter hook input priority filter", [
      `ip daddr ${dns} iifname != { "lo", "${bridge}" } ct direction original drop`,
    ]),
  ];
}

/** Returns an nft script that writes the whole table and replaces an existing table of the same name. */
export function printTable(settings: TableSettings, forwards: readonly Forward[]): string {
  const tableHeader = `table ip ${settings.table}`;
  const addresses = forwards.map(
    (forward) => `${addressElement(forward)} : goto ${chainName(forward)}`,
  );
  const ports = forwards.flatMap((forward) => {
    const element = nodePortElement(forward);
    return element === undefined ? [] : [`${element} : goto ${chainName(forward)}`];
  });
  return [
    tableHeader,
    `delete ${tableHeader}`,
    `${tableHeader} {`,
    ...forwards.flatMap((forward) => [
      `chain ${chainName(forward)} {`,
      ...printRules(forward),
      "}",
    ]),
    ...mapText("addresses", "ipv4_addr . inet_proto . inet_service", addresses),
    ...mapText("node-ports", "inet_proto . inet_service", ports),
    ...printBaseChains(settings),
    "}",
    "",
  ].join("\n");
}

export function printRemoval(table: string): string {
  return `table ip ${table}\ndelete table ip ${table}\n`;
}

function printElements(verb: "add" | "delete", table: string, forward: Forward): readonly string[] {
  const target = verb === "add" ? ` : goto ${chainName(forward)}` : "";
  const nodePort = nodePortElement(forward);
  return [
    `${verb} element ip ${table} addresses { ${addressElement(forward)}${target} }`,
    ...(nodePort === undefined
      ? []
      : [`${verb} element ip ${table} node-ports { ${nodePort}${target} }`]),
  ];
}

function hasSameElements(left: Forward, right: Forward | undefined): boolean {
  return (
    right !== undefined &&
    addressElement(left) === addressElement(right) &&
    left.nodePort === right.nodePort
  );
}

function hasSameRules(left: Forward, right: Forward | undefined): boolean {
  return right !== undefined && printRules(left).join("\n") === printRules(right).join("\n");
}

function mapByName(forwards: readonly Forward[]): ReadonlyMap<string, Forward> {
  return new Map(forwards.map((forward) => [forward.name, forward]));
}

/** Prints the commands that change `currentForwards` into `newForwards`. Returns an empty text if the forwards are equal. */
export function printChanges(
  { table }: TableSettings,
  currentForwards: readonly Forward[],
  newForwards: readonly Forward[],
): string {
  const [oldByName, newByName] = [mapByName(currentForwards), mapByName(newForwards)];
  const tableReference = `ip ${table}`;
  const removedElements = currentForwards.filter(
    (forward) => !hasSameElements(forward, newByName.get(forward.name)),
  );
  const addedElements = newForwards.filter(
    (forward) => !hasSameElements(forward, oldByName.get(forward.name)),
  );
  const changedChains = newForwards.filter(
    (forward) => !hasSameRules(forward, oldByName.get(forward.name)),
  );
  const deletedChains = currentForwards.filter(({ name }) => !newByName.has(name));
  const lines = [
    ...removedElements.flatMap((forward) => printElements("delete", table, forward)),
    ...changedChains.flatMap((forward) => [
      `add chain ${tableReference} ${chainName(forward)}`,
      `flush chain ${tableReference} ${chainName(forward)}`,
      ...printRules(forward).map(
        (rule) => `add rule ${tableReference} ${chainName(forward)} ${rule}`,
      ),
    ]),
    ...addedElements.flatMap((forward) => printElements("add", table, forward)),
    ...deletedChains.flatMap((forward) => [
      `flush chain ${tableReference} ${chainName(forward)}`,
      `delete chain ${tableReference} ${chainName(forward)}`,
    ]),
  ];
  return lines.map((line) => `${line}\n`).join("");
}
