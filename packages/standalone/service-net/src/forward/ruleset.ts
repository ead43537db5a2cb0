// SPDX-License-Identifier: Apache-2.0
// Input of `nft -f` that replaces the whole table or changes a part of it.
import type { Forward } from "./forwards.ts";

export interface TableSettings {
  readonly table: string;
  readonly serviceNetwork: string;
  readonly dns: string;
  readonly podNetwork: string;
  readonly bridge: string;
  /** TCP ports of the machine's services. */
  readonly limitedPorts?: readonly number[];
}

const MARK = "0x1000";

type VerdictMap = "addresses" | "node-ports";

/** Element of a verdict map with the elements of its endpoints, which together forward one address or node port. */
interface Entry {
  readonly verdictMap: VerdictMap;
  readonly key: string;
  readonly name: string;
  readonly chain: Chain;
  readonly endpoints: ReadonlyMap<string, string>;
}

/** Chain that chooses one of `count` endpoints. All forwards with the same choice share the chain. */
interface Chain {
  readonly protocol: Forward["protocol"];
  readonly isNodePort: boolean;
  readonly isSticky: boolean;
  readonly count: number;
}

function endpointMapName({ protocol, isNodePort }: Pick<Chain, "protocol" | "isNodePort">): string {
  return `${protocol}${isNodePort ? "-node" : ""}-endpoints`;
}

function chainName({ protocol, isNodePort, isSticky, count }: Chain): string {
  const choice = isSticky ? "sticky" : "random";
  return `${protocol}${isNodePort ? "-node" : ""}-${choice}-${String(count)}`;
}

function endpointKeyMatch({ protocol, isNodePort }: Pick<Chain, "protocol" | "isNodePort">) {
  return isNodePort ? `${protocol} dport` : `ip daddr . ${protocol} dport`;
}

function printRules(chain: Chain): readonly string[] {
  const count = String(chain.count);
  const index = chain.isSticky
    ? `jhash ip saddr mod ${count} seed 0x1`
    : `numgen random mod ${count}`;
  const endpoint = `${endpointKeyMatch(chain)} . ${index} map @${endpointMapName(chain)}`;
  return [`meta mark set meta mark | ${MARK}`, `dnat ip addr . port to ${endpoint}`];
}

function buildEntry(
  forward: Forward,
  verdictMap: VerdictMap,
  key: string,
  endpointPrefix: string,
): Entry {
  const { name, protocol, isSticky, endpoints } = forward;
  const isNodePort = verdictMap === "node-ports";
  return {
    verdictMap,
    key,
    name,
    chain: { protocol, isNodePort, isSticky, count: endpoints.length },
    endpoints: new Map(
      endpoints.map((endpoint, index) => [`${endpointPrefix} . ${String(index)}`, endpoint]),
    ),
  };
}

export function listEntries(forward: Forward): readonly Entry[] {
  const { address, protocol, port, nodePort } = forward;
  const addressKey = `${address} . ${protocol} . ${String(port)}`;
  const entry = buildEntry(forward, "addresses", addressKey, `${address} . ${String(port)}`);
  if (nodePort === undefined) return [entry];
  const nodePortKey = `${protocol} . ${String(nodePort)}`;
  return [entry, buildEntry(forward, "node-ports", nodePortKey, String(nodePort))];
}

/** TCP connections and UDP queries of one address to the DNS server. The kernel drops others, because answers would cost more. */
const DNS_RATES = { tcp: "30/second burst 200 packets", udp: "300/second burst 1000 packets" };

/** New connections of one address to the machine's services. Without it, a client that reconnects in a loop uses a third of a core. */
const CONNECTION_RATE = "30/second burst 150 packets";

/** Maximum length of an element's comment. Source: libnftnl NFTNL_UDATA_COMMENT_MAXLEN */
const COMMENT_MAX = 128;

function printVerdict({ key, name, chain }: Entry): string {
  return `${key} comment "${name.slice(0, COMMENT_MAX)}" : goto ${chainName(chain)}`;
}

function printMap(name: string, type: string): readonly string[] {
  return [`map ${name} {`, type, "}"];
}

/** Prints the maps of endpoints, one for each protocol, because nft rejects `th dport` in rules that match one protocol. */
function printEndpointMaps(): readonly string[] {
  return (["tcp", "udp"] as const).flatMap((protocol) =>
    [false, true].flatMap((isNodePort) => {
      const map = { protocol, isNodePort };
      const type = `typeof ${endpointKeyMatch(map)} . numgen random mod 2 : ip daddr . ${protocol} dport`;
      return printMap(endpointMapName(map), type);
    }),
  );
}

function baseChain(name: string, hook: string, rules: readonly string[]): readonly string[] {
  return [`chain ${name} {`, `type ${hook}; policy accept;`, ...rules, "}"];
}

function printClientSet(name: string): readonly string[] {
  const content = ["typeof ip saddr", "size 65536", "flags dynamic,timeout", "timeout 10s"];
  return [`set ${name} {`, ...content, "}"];
}

/** The machine's services and its administrator share the address 127.0.0.1, so it is not limited. */
function printConnectionLimit(ports: readonly number[] = []): readonly string[] {
  if (ports.length === 0) return [];
  const match = `ip saddr != 127.0.0.1 tcp dport { ${ports.join(", ")} } ct state new`;
  return [`${match} update @service-clients { ip saddr limit rate over ${CONNECTION_RATE} } drop`];
}

/** Masquerades forwarded connections, because a pod would answer another pod directly over the bridge. */
function printBaseChains(settings: TableSettings): readonly string[] {
  const { serviceNetwork, podNetwork, dns, bridge } = settings;
  const directMatch = `ip daddr ${podNetwork} ip saddr != ${podNetwork} fib saddr type != local`;
  return [
    "chain services {",
    "ip daddr . meta l4proto . th dport vmap @addresses",
    "}",
    "chain local {",
    "ip daddr != 127.0.0.0/8 fib daddr type local meta l4proto . th dport vmap @node-ports",
    "}",
    ...baseChain("prerouting", "nat hook prerouting priority dstnat - 1", [
      "jump services",
      // Leaves connections to processes of the host that listen on a node port.
      "fib daddr type local socket transparent { 0, 1 } return",
      "jump local",
    ]),
    ...baseChain("output", "nat hook output priority -101", ["jump services", "jump local"]),
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
    ...["tcp-clients", "udp-clients", "service-clients"].flatMap(printClientSet),
    // Drops DNS queries from other machines, but accepts answers to this host's own queries.
    ...baseChain("enter", "filter hook input priority filter", [
      `ip daddr ${dns} iifname != { "lo", "${bridge}" } ct direction original drop`,
      `ip daddr ${dns} tcp dport 53 ct state new update @tcp-clients { ip saddr limit rate over ${DNS_RATES.tcp} } drop`,
      `ip daddr ${dns} udp dport 53 update @udp-clients { ip saddr limit rate over ${DNS_RATES.udp} } drop`,
      ...printConnectionLimit(settings.limitedPorts),
    ]),
  ];
}

function printEmptyTable(settings: TableSettings): string {
  const tableHeader = `table ip ${settings.table}`;
  return [
    tableHeader,
    `delete ${tableHeader}`,
    `${tableHeader} {`,
    ...printMap("addresses", "type ipv4_addr . inet_proto . inet_service : verdict"),
    ...printMap("node-ports", "type inet_proto . inet_service : verdict"),
    ...printEndpointMaps(),
    ...printBaseChains(settings),
    "}",
    "",
  ].join("\n");
}

/** Returns an nft script that changes nothing, and that nft refuses if the table is missing. */
export function printProbe({ table }: TableSettings): string {
  return `add chain ip ${table} services\n`;
}

export function printRemoval(table: string): string {
  return `table ip ${table}\ndelete table ip ${table}\n`;
}

export interface ServiceChange {
  readonly service: string;
  readonly before: readonly Entry[];
  readonly after: readonly Entry[];
}

export function countElements({ before, after }: ServiceChange): number {
  return [...before, ...after].reduce((sum, { endpoints }) => sum + 1 + endpoints.size, 0);
}

type EntriesById = ReadonlyMap<string, Entry>;

function mapById(entries: readonly Entry[]): EntriesById {
  return new Map(entries.map((entry) => [`${entry.verdictMap} ${entry.key}`, entry]));
}

/** Returns the part of the change that deletes entries. It comes first, so that other Services can claim the addresses and ports. */
export function onlyRemovals({ service, before, after }: ServiceChange): ServiceChange {
  const afterById = mapById(after);
  const retained = [...mapById(before)].flatMap(([id, entry]) =>
    afterById.has(id) ? [entry] : [],
  );
  return { service, before, after: retained };
}

interface MapElement {
  readonly map: string;
  readonly element: string;
}

function listMissing(entries: EntriesById, others: EntriesById, verb: "add" | "delete") {
  const endpoints: MapElement[] = [];
  const verdicts: MapElement[] = [];
  for (const [id, entry] of entries) {
    const other = others.get(id);
    const map = endpointMapName(entry.chain);
    for (const [key, target] of entry.endpoints) {
      if (other?.endpoints.get(key) === target) continue;
      endpoints.push({ map, element: verb === "add" ? `${key} : ${target}` : key });
    }
    if (other !== undefined && chainName(other.chain) === chainName(entry.chain)) continue;
    const element = verb === "add" ? printVerdict(entry) : entry.key;
    verdicts.push({ map: entry.verdictMap, element });
  }
  return { endpoints, verdicts };
}

function printElements(
  verb: "add" | "delete",
  table: string,
  elements: readonly MapElement[],
): readonly string[] {
  return [...Map.groupBy(elements, ({ map }) => map)].map(([map, group]) => {
    const list = group.map(({ element }) => element).join(", ");
    return `${verb} element ip ${table} ${map} { ${list} }`;
  });
}

function printChains(table: string, entries: EntriesById): readonly string[] {
  const chains = new Map([...entries.values()].map(({ chain }) => [chainName(chain), chain]));
  return [...chains].flatMap(([name, chain]) => [
    `add chain ip ${table} ${name}`,
    `flush chain ip ${table} ${name}`,
    ...printRules(chain).map((rule) => `add rule ip ${table} ${name} ${rule}`),
  ]);
}

export function printChanges({ table }: TableSettings, changes: readonly ServiceChange[]): string {
  const before = mapById(changes.flatMap((change) => change.before));
  const after = mapById(changes.flatMap((change) => change.after));
  const removed = listMissing(before, after, "delete");
  const added = listMissing(after, before, "add");
  const isUnchanged = [removed, added].every(
    ({ endpoints, verdicts }) => endpoints.length + verdicts.length === 0,
  );
  if (isUnchanged) return "";
  const lines = [
    ...printElements("delete", table, removed.verdicts),
    ...printElements("delete", table, removed.endpoints),
    ...printChains(table, after),
    ...printElements("add", table, added.endpoints),
    ...printElements("add", table, added.verdicts),
  ];
  return lines.map((line) => `${line}\n`).join("");
}

export function printTable(settings: TableSettings, changes: readonly ServiceChange[]): string {
  return `${printEmptyTable(settings)}${printChanges(settings, changes)}`;
}

export function printReset(
  settings: TableSettings,
  { service, before, after }: ServiceChange,
): string {
  const change = (from: readonly Entry[], to: readonly Entry[]): string =>
    printChanges(settings, [{ service, before: from, after: to }]);
  return [change([], before), change(before, []), change([], after)].join("");
}
