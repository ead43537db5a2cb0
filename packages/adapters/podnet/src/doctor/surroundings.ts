// SPDX-License-Identifier: Apache-2.0
// Reads what affects a path: static neighbor and forwarding entries, the node's default route, and filters that may
// drop frames. Source: linux/neighbour.h, linux/rtnetlink.h, linux/pkt_sched.h
import { isWithin, toNetworkAddress, parseIp } from "@patchbay/api/values";
import type {
  FixedEntry,
  FixedNeighbor,
  FrameFilter,
  NodeUplinkFault,
  PacketFilter,
  Place,
  RouteFault,
} from "@patchbay/core/doctor";
import { messageOf } from "@patchbay/base";
import type { Netlink, NetnsHandle, ProcessRunner } from "@patchbay/core/interfaces";
import {
  queryForwarding,
  queryRoutes,
  dumpTables,
  buildDumpRequest,
  LINK_REQUESTS,
} from "../netlink/queries.ts";
import { decodeAttributes, findNumber, findText, type Message } from "../netlink/message.ts";
import {
  printAddressBytes,
  AF_INET,
  AF_INET6,
  MESSAGE_HEADER_BYTES,
  decodeLinks,
  decodeLinkFields,
  decodeNeighbor,
  RTA,
  RTM,
  readIpVersion,
  toView,
} from "../netlink/rtnetlink.ts";
import type { WiredLink } from "../links.ts";
import { runInNamespace } from "../run-in.ts";

export interface PathNamespaces {
  readonly pod: NetnsHandle;
  readonly node: NetnsHandle;
}

const PLACES: readonly Place[] = ["pod", "node"];
const NEIGHBOR_REQUESTS = [AF_INET, AF_INET6].map((family) =>
  buildDumpRequest(RTM.getNeighbour, MESSAGE_HEADER_BYTES.neighbour, family),
);

interface ObservedNeighbor extends Omit<FixedNeighbor, "at"> {
  readonly isFixed: boolean;
}

function toObservedNeighbor(
  message: Message,
  names: ReadonlyMap<number, string>,
): readonly ObservedNeighbor[] {
  const neighbor = decodeNeighbor(message);
  const link = names.get(neighbor?.index ?? 0);
  if (neighbor === undefined || link === undefined) return [];
  const { address, mac, isPermanent: isFixed } = neighbor;
  return [{ link, address, mac, isFixed }];
}

function listLinkNames(messages: readonly Message[]): ReadonlyMap<number, string> {
  const links = messages.flatMap((message) => decodeLinkFields(message)?.base ?? []);
  return new Map(links.map(({ index, name }) => [index, name]));
}

async function listNeighbors(
  netlink: Netlink,
  netns: NetnsHandle,
): Promise<readonly ObservedNeighbor[]> {
  const messages = await dumpTables(netlink, netns, [...LINK_REQUESTS, ...NEIGHBOR_REQUESTS]);
  const names = listLinkNames(messages);
  return messages.flatMap((message) => toObservedNeighbor(message, names));
}

export async function readNeighbors(
  netlink: Netlink,
  places: PathNamespaces,
  addresses: readonly string[],
): Promise<readonly FixedNeighbor[]> {
  const neighborLists = await Promise.all(
    PLACES.map(async (place) => {
      const neighbors = await listNeighbors(netlink, places[place]);
      return neighbors
        .filter(({ isFixed, address }) => isFixed && addresses.includes(address))
        .map(({ link, address, mac }) => ({ at: place, link, address, mac }));
    }),
  );
  return neighborLists.flat();
}

export async function readEntries(
  netlink: Netlink,
  places: PathNamespaces,
  macs: readonly string[],
): Promise<readonly FixedEntry[]> {
  const entryLists = await Promise.all(
    PLACES.map(async (place) => {
      const { links, forwarding } = await queryForwarding(netlink, places[place]);
      const isOwn = (mac: string, port: string): boolean =>
        links.some((link) => link.mac === mac && (link.name === port || link.kind === "bridge"));
      return forwarding
        .filter(({ mac, state }) => macs.includes(mac) && ["static", "permanent"].includes(state))
        .filter(({ mac, device }) => !isOwn(mac, device))
        .map(({ mac, device }) => ({ at: place, mac, port: device }));
    }),
  );
  return entryLists.flat();
}

export interface NodeRoute {
  readonly link: string;
  readonly address: string;
  readonly mac: string;
  readonly gateway: string;
  readonly gatewayMac: string;
}

interface Hop {
  readonly link: string;
  readonly gateway: string;
}

function decodeDefaultRoute(message: Message, names: ReadonlyMap<number, string>): readonly Hop[] {
  if (message.type !== RTM.newRoute || message.body.length < MESSAGE_HEADER_BYTES.route) return [];
  const view = toView(message);
  const attributes = decodeAttributes(message.body, MESSAGE_HEADER_BYTES.route);
  const gateway = attributes.get(RTA.gateway);
  const link = names.get(findNumber(attributes, RTA.link) ?? 0);
  const isDefault = readIpVersion(view) === 4 && view.getUint8(1) === 0;
  if (!isDefault || gateway === undefined || link === undefined) return [];
  return [{ link, gateway: printAddressBytes(4, gateway) }];
}

/** Checks whether the message is a route through the link. Ignores IPv6 routes that the kernel adds to each link. */
function isRouteThrough(message: Message, index: number): boolean {
  if (message.type !== RTM.newRoute || message.body.length < MESSAGE_HEADER_BYTES.route)
    return false;
  const attributes = decodeAttributes(message.body, MESSAGE_HEADER_BYTES.route);
  if (findNumber(attributes, RTA.link) !== index) return false;
  const version = readIpVersion(toView(message));
  const destination = attributes.get(RTA.destination);
  const text = destination === undefined ? "" : printAddressBytes(version, destination);
  return version === 4 || !/^f(?:e80|f)/.test(text);
}

export async function hasRouteThrough(
  netlink: Netlink,
  node: NetnsHandle,
  link: string,
): Promise<boolean | undefined> {
  const names = listLinkNames(await dumpTables(netlink, node, LINK_REQUESTS));
  const [index] = [...names].find(([, name]) => name === link) ?? [];
  if (index === undefined) return undefined;
  return (await queryRoutes(netlink, node)).some((message) => isRouteThrough(message, index));
}

export async function readNodeRoute(
  netlink: Netlink,
  node: NetnsHandle,
): Promise<NodeRoute | undefined> {
  const links = await dumpTables(netlink, node, LINK_REQUESTS);
  const names = listLinkNames(links);
  const routes = await queryRoutes(netlink, node);
  const [hop] = routes.flatMap((message) => decodeDefaultRoute(message, names));
  if (hop === undefined) return undefined;
  const link = decodeLinks(links).find(({ name }) => name === hop.link);
  const address = link?.addresses
    .map((text) => text.split("/")[0] ?? "")
    .find((text) => parseIp(text)?.version === 4);
  const neighbors = await listNeighbors(netlink, node);
  const gatewayNeighbor = neighbors.find(
    (neighbor) => neighbor.link === hop.link && neighbor.address === hop.gateway,
  );
  if (link === undefined || address === undefined || gatewayNeighbor === undefined)
    return undefined;
  return { ...hop, address, mac: link.mac, gatewayMac: gatewayNeighbor.mac };
}

/** RTN_UNICAST, and the offset of the route's type in struct rtmsg, in bytes. */
const [UNICAST, ROUTE_TYPE_AT] = [1, 7];

/** Returns the link index of an IPv4 default route, or 0 if the route has several links. Returns an empty list for other messages. */
function decodeDefaultLink(message: Message): readonly number[] {
  if (message.type !== RTM.newRoute || message.body.length < MESSAGE_HEADER_BYTES.route) return [];
  const view = toView(message);
  const isDefault = readIpVersion(view) === 4 && view.getUint8(1) === 0;
  if (!isDefault || view.getUint8(ROUTE_TYPE_AT) !== UNICAST) return [];
  const attributes = decodeAttributes(message.body, MESSAGE_HEADER_BYTES.route);
  return [findNumber(attributes, RTA.link) ?? 0];
}

/** Kinds of links that can lead out of a node. The kind of a physical NIC is empty. */
const UPLINK_KINDS = ["", "bond", "veth", "vlan"];

/** If all possible uplinks are down, returns the first. Finds uplinks by IPv4 addresses, because links that are down have no routes. */
function findDownUplink(links: readonly WiredLink[]): WiredLink | undefined {
  const candidates = links.filter(
    ({ kind, name, addresses }) =>
      UPLINK_KINDS.includes(kind) &&
      name !== "lo" &&
      addresses.some((text) => parseIp(text)?.version === 4),
  );
  return candidates.every(({ up }) => !up) ? candidates[0] : undefined;
}

/** Returns why the node cannot send IPv4 packets to other networks. Returns undefined if no reason is known. */
export async function readUplinkFault(
  netlink: Netlink,
  node: NetnsHandle,
): Promise<NodeUplinkFault | undefined> {
  const links = decodeLinks(await dumpTables(netlink, node, LINK_REQUESTS));
  const indexes = (await queryRoutes(netlink, node)).flatMap(decodeDefaultLink);
  if (indexes.length === 0) {
    const downLink = findDownUplink(links);
    return downLink === undefined
      ? { problem: "noRoute" }
      : { problem: "down", link: downLink.name };
  }
  const routeLinks = indexes.map((index) => links.find((link) => link.index === index));
  const [first] = routeLinks;
  const hasCarrier = routeLinks.some((link) => link?.carrier !== false);
  return hasCarrier || first === undefined ? undefined : { problem: "noCarrier", link: first.name };
}

/** RTM_GETQDISC, RTM_NEWQDISC, sizeof(struct tcmsg) and TCA_KIND. */
const [GET_QDISC, NEW_QDISC, TC_HEAD, TC_KIND] = [38, 36, 20, 1];
/** Queueing disciplines that drop frames intentionally or contain filters. */
const FILTERING_QDISCS = ["clsact", "ingress", "netem", "tbf"];
const [IFLA_XDP, XDP_ATTACHED] = [43, 2];

function decodeQdiscFilter(
  message: Message,
  names: ReadonlyMap<number, string>,
): readonly Omit<FrameFilter, "at">[] {
  if (message.type !== NEW_QDISC || message.body.length < TC_HEAD) return [];
  const kind = findText(decodeAttributes(message.body, TC_HEAD), TC_KIND);
  const link = names.get(toView(message).getInt32(4, true));
  if (link === undefined || !FILTERING_QDISCS.includes(kind)) return [];
  return [{ link, command: `tc -s qdisc show dev ${link}` }];
}

function decodeXdp(message: Message): readonly Omit<FrameFilter, "at">[] {
  const fields = decodeLinkFields(message);
  const xdp = decodeAttributes(fields?.attributes.get(IFLA_XDP));
  const attached = xdp.get(XDP_ATTACHED)?.[0] ?? 0;
  if (fields === undefined || attached === 0) return [];
  return [{ link: fields.base.name, command: `ip -d link show dev ${fields.base.name}` }];
}

const DROP_VERDICT = /\b(drop|reject)\b/;

interface PrintedChain {
  /** Address family and name of the table, separated by a space. */
  readonly table: string;
  readonly name: string;
  readonly lines: readonly string[];
}

function parseChains(ruleset: string): readonly PrintedChain[] {
  return ruleset.split(/^(?=table )/m).flatMap((text) => {
    const [, table = ""] = /^table (\w+ \S+) \{/.exec(text) ?? [];
    return text.split(/^(?=\tchain )/m).flatMap((part) => {
      const [header = "", ...lines] = part.split("\n");
      const [, name] = /^\tchain (\S+) \{/.exec(header) ?? [];
      return name === undefined ? [] : [{ table, name, lines }];
    });
  });
}

function toFilter({ table, name, lines }: PrintedChain): readonly Omit<FrameFilter, "at">[] {
  const [family, tableName = ""] = table.split(" ");
  const isOurs = tableName.startsWith("patchbay-");
  if (isOurs || !lines.some((line) => DROP_VERDICT.test(line))) return [];
  const command = `nft list chain ${table} ${name}`;
  if (family === "bridge") return [{ command }];
  const [, link] = /\bdevice "?([^\s";]+)"?/.exec(lines.join("\n")) ?? [];
  return family === "netdev" && link !== undefined ? [{ link, command }] : [];
}

export function parseFilters(ruleset: string): readonly Omit<FrameFilter, "at">[] {
  return parseChains(ruleset).flatMap(toFilter);
}

const PACKET_HOOK = /^\t\ttype filter hook (?:prerouting|forward|postrouting) .*policy (\w+)/;
const OTHER_VERDICT = /\b(?:accept|return|jump|goto|queue)\b/;

/** Pod links and guest address by which a packet filter rule can match the packets that the pod forwards. */
export interface ForwardedEnds {
  readonly links: readonly string[];
  readonly guest: string;
}

/** Checks whether a rule drops every packet to or from the guest. Such a rule matches only on the pod's links or the guest's address. */
function dropsAllPackets(rule: string, { links, guest }: ForwardedEnds): boolean {
  const rest = rule
    .replaceAll(/\b[io]ifname "([^"]*)"/g, (match: string, name: string) =>
      links.includes(name) ? "" : match,
    )
    .replaceAll(/\bip [sd]addr (\S+)/g, (match: string, address: string) =>
      address === guest ? "" : match,
    );
  return /^\s*(?:counter )?drop$/.test(rest.trimEnd());
}

export function parsePacketFilters(ruleset: string, ends: ForwardedEnds): readonly PacketFilter[] {
  return parseChains(ruleset).flatMap(({ table, name, lines }) => {
    const [family, tableName = ""] = table.split(" ");
    const isOurs = tableName.startsWith("patchbay-");
    const [hook = "", ...rules] = lines;
    const [, policy] = PACKET_HOOK.exec(hook) ?? [];
    if (isOurs || !["ip", "inet"].includes(family ?? "") || policy === undefined) return [];
    const drops = rules.filter((rule) => DROP_VERDICT.test(rule));
    if (policy !== "drop" && drops.length === 0) return [];
    const isPlain = !rules.some((rule) => OTHER_VERDICT.test(rule));
    const dropsAll =
      isPlain && (policy === "drop" || drops.some((rule) => dropsAllPackets(rule, ends)));
    return [{ command: `nft list chain ${table} ${name}`, dropsAll }];
  });
}

export async function readPacketFilters(
  runner: ProcessRunner,
  pod: NetnsHandle,
  ends: ForwardedEnds,
): Promise<readonly PacketFilter[]> {
  return parsePacketFilters(await readRuleset(runner, pod), ends);
}

async function readRuleset(runner: ProcessRunner, netns: NetnsHandle): Promise<string> {
  try {
    return await runInNamespace(runner, netns, { program: "nft", args: ["-s", "list", "ruleset"] });
  } catch {
    // The diagnosis continues without nftables rules.
    return "";
  }
}

export async function readFilters(
  { netlink, runner }: { readonly netlink: Netlink; readonly runner: ProcessRunner },
  places: PathNamespaces,
): Promise<readonly FrameFilter[]> {
  const filterLists = await Promise.all(
    PLACES.map(async (place) => {
      const messages = await dumpTables(netlink, places[place], [
        ...LINK_REQUESTS,
        buildDumpRequest(GET_QDISC, TC_HEAD),
      ]);
      const names = listLinkNames(messages);
      const linkFilters = messages.flatMap((message) => [
        ...decodeQdiscFilter(message, names),
        ...decodeXdp(message),
      ]);
      const ruleFilters = parseFilters(await readRuleset(runner, places[place]));
      return [...linkFilters, ...ruleFilters].map((filter) => ({ at: place, ...filter }));
    }),
  );
  return filterLists.flat();
}

export function mentionsSource(ruleset: string, address: string): boolean {
  const source = parseIp(address);
  return (
    source !== undefined &&
    [...ruleset.matchAll(/\bsaddr (\d[\d./]*)/g)].some(([, text = ""]) => {
      const subnet = parseIp(text);
      return subnet !== undefined && isWithin(source, toNetworkAddress(subnet));
    })
  );
}

export async function hasRulesForSource(
  runner: ProcessRunner,
  node: NetnsHandle,
  address: string,
): Promise<boolean> {
  return mentionsSource(await readRuleset(runner, node), address);
}

/** A route lookup with `ip route get`, and the link that the route must use. */
export interface RouteLookup {
  readonly at: Place;
  readonly args: readonly string[];
  readonly link: string;
}

/** Returns a fault if the route does not lead to the expected link, or if the kernel rejects the lookup. Ignores other failures of `ip`. */
export async function readRouteFault(
  runner: ProcessRunner,
  netns: NetnsHandle,
  { at, args, link }: RouteLookup,
): Promise<readonly RouteFault[]> {
  const command = `ip ${args.join(" ")}`;
  try {
    const output = await runInNamespace(runner, netns, { program: "ip", args });
    const [, device = ""] = /\bdev (\S+)/.exec(output) ?? [];
    return device === link ? [] : [{ at, command, problem: `leads to ${device}` }];
  } catch (error) {
    const [, problem] = /RTNETLINK answers: ([^\n]+)/.exec(messageOf(error)) ?? [];
    return problem === undefined ? [] : [{ at, command, problem }];
  }
}
