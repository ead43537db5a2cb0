// SPDX-License-Identifier: Apache-2.0
// What surrounds a path: fixed neighbor and forwarding entries, the node's default route, and what can drop frames.
// Source: linux/neighbour.h, linux/rtnetlink.h, linux/pkt_sched.h
import { isWithin, networkOf, parseIp } from "@patchbay/api";
import type { FixedEntry, FixedNeighbor, FrameFilter, Place } from "@patchbay/core";
import type { Netlink, NetnsHandle, ProcessRunner } from "@patchbay/core/ports";
import { askForwarding, askRoutes, askWhole, dumpOf, LINKS } from "../netlink/ask.ts";
import { attributesIn, findNumber, textIn, type Message } from "../netlink/message.ts";
import { RTA } from "../netlink/nic.ts";
import {
  addressText,
  AF_INET,
  AF_INET6,
  HEAD,
  linksIn,
  linkWordsIn,
  macOf,
  NDA,
  NUD,
  RTM,
  versionIn,
  viewOf,
} from "../netlink/rtnetlink.ts";
import { runIn } from "../run-in.ts";

/** Both namespaces. */
export interface Places {
  readonly pod: NetnsHandle;
  readonly node: NetnsHandle;
}

const PLACES: readonly Place[] = ["pod", "node"];
const NEIGHBORS = [AF_INET, AF_INET6].map((family) =>
  dumpOf(RTM.getNeighbour, HEAD.neighbour, family),
);
const DESTINATION = 1;

interface SeenNeighbor extends Omit<FixedNeighbor, "at"> {
  readonly isFixed: boolean;
}

function neighborIn(message: Message, names: ReadonlyMap<number, string>): readonly SeenNeighbor[] {
  if (message.type !== RTM.newNeighbour || message.body.length < HEAD.neighbour) return [];
  const view = viewOf(message);
  const attributes = attributesIn(message.body, HEAD.neighbour);
  const [address, mac] = [attributes.get(DESTINATION), attributes.get(NDA.mac)];
  const link = names.get(view.getInt32(4, true));
  if (address === undefined || mac === undefined || link === undefined) return [];
  const isFixed = (view.getUint16(8, true) & NUD.permanent) !== 0;
  return [{ link, address: addressText(versionIn(view), address), mac: macOf(mac), isFixed }];
}

function namesIn(messages: readonly Message[]): ReadonlyMap<number, string> {
  const links = messages.flatMap((message) => linkWordsIn(message)?.base ?? []);
  return new Map(links.map(({ index, name }) => [index, name]));
}

async function listNeighbors(
  netlink: Netlink,
  netns: NetnsHandle,
): Promise<readonly SeenNeighbor[]> {
  const messages = await askWhole(netlink, netns, [...LINKS, ...NEIGHBORS]);
  const names = namesIn(messages);
  return messages.flatMap((message) => neighborIn(message, names));
}

/** Neighbor entries that do not age, for these addresses. */
export async function readNeighbors(
  netlink: Netlink,
  places: Places,
  addresses: readonly string[],
): Promise<readonly FixedNeighbor[]> {
  const all = await Promise.all(
    PLACES.map(async (at) => {
      const seen = await listNeighbors(netlink, places[at]);
      return seen
        .filter(({ isFixed, address }) => isFixed && addresses.includes(address))
        .map(({ link, address, mac }) => ({ at, link, address, mac }));
    }),
  );
  return all.flat();
}

/** Forwarding entries of bridges that do not age, for these MACs. */
export async function readEntries(
  netlink: Netlink,
  places: Places,
  macs: readonly string[],
): Promise<readonly FixedEntry[]> {
  const all = await Promise.all(
    PLACES.map(async (at) => {
      const { links, forwarding } = await askForwarding(netlink, places[at]);
      const isOwn = (mac: string, port: string): boolean =>
        links.some((link) => link.mac === mac && (link.name === port || link.kind === "bridge"));
      return forwarding
        .filter(({ mac, state }) => macs.includes(mac) && ["static", "permanent"].includes(state))
        .filter(({ mac, device }) => !isOwn(mac, device))
        .map(({ mac, device }) => ({ at, mac, port: device }));
    }),
  );
  return all.flat();
}

/** The default route of the node, with all that a ping along it needs. */
export interface NodeRoute {
  readonly link: string;
  /** The node's own address and MAC there. */
  readonly address: string;
  readonly mac: string;
  readonly gateway: string;
  readonly gatewayMac: string;
}

interface Hop {
  readonly link: string;
  readonly gateway: string;
}

function defaultRouteIn(message: Message, names: ReadonlyMap<number, string>): readonly Hop[] {
  if (message.type !== RTM.newRoute || message.body.length < HEAD.route) return [];
  const view = viewOf(message);
  const attributes = attributesIn(message.body, HEAD.route);
  const via = attributes.get(RTA.gateway);
  const link = names.get(findNumber(attributes, RTA.link) ?? 0);
  const isDefault = versionIn(view) === 4 && view.getUint8(1) === 0;
  if (!isDefault || via === undefined || link === undefined) return [];
  return [{ link, gateway: addressText(4, via) }];
}

/** Whether a message is a route by that link, other than those that the kernel makes for every link of IPv6. */
function leadsBy(message: Message, index: number): boolean {
  if (message.type !== RTM.newRoute || message.body.length < HEAD.route) return false;
  const attributes = attributesIn(message.body, HEAD.route);
  if (findNumber(attributes, RTA.link) !== index) return false;
  const version = versionIn(viewOf(message));
  const destination = attributes.get(RTA.destination);
  const text = destination === undefined ? "" : addressText(version, destination);
  return version === 4 || !/^f(?:e80|f)/.test(text);
}

/** Whether a route of the node leads to that link; undefined: there is no such link. */
export async function isRoutedTo(
  netlink: Netlink,
  node: NetnsHandle,
  link: string,
): Promise<boolean | undefined> {
  const names = namesIn(await askWhole(netlink, node, LINKS));
  const [index] = [...names].find(([, name]) => name === link) ?? [];
  if (index === undefined) return undefined;
  return (await askRoutes(netlink, node)).some((message) => leadsBy(message, index));
}

/** The node's default route of IPv4; undefined: it has none whose gateway is known. */
export async function readNodeRoute(
  netlink: Netlink,
  node: NetnsHandle,
): Promise<NodeRoute | undefined> {
  const links = await askWhole(netlink, node, LINKS);
  const names = namesIn(links);
  const routes = await askRoutes(netlink, node);
  const [hop] = routes.flatMap((message) => defaultRouteIn(message, names));
  if (hop === undefined) return undefined;
  const own = linksIn(links).find(({ name }) => name === hop.link);
  const address = own?.addresses
    .map((text) => text.split("/")[0] ?? "")
    .find((text) => parseIp(text)?.version === 4);
  const neighbors = await listNeighbors(netlink, node);
  const known = neighbors.find((each) => each.link === hop.link && each.address === hop.gateway);
  if (own === undefined || address === undefined || known === undefined) return undefined;
  return { ...hop, address, mac: own.mac, gatewayMac: known.mac };
}

/** Source: RTM_GETQDISC, TCA_KIND; struct tcmsg */
const [GET_QDISC, NEW_QDISC, TC_HEAD, TC_KIND] = [38, 36, 20, 1];
/** Disciplines that drop frames on purpose or carry filters. */
const FILTERING = ["clsact", "ingress", "netem", "tbf"];
/** Source: IFLA_XDP, IFLA_XDP_ATTACHED */
const [IFLA_XDP, XDP_ATTACHED] = [43, 2];

function qdiscFilterIn(
  message: Message,
  names: ReadonlyMap<number, string>,
): readonly Omit<FrameFilter, "at">[] {
  if (message.type !== NEW_QDISC || message.body.length < TC_HEAD) return [];
  const kind = textIn(attributesIn(message.body, TC_HEAD), TC_KIND);
  const link = names.get(viewOf(message).getInt32(4, true));
  if (link === undefined || !FILTERING.includes(kind)) return [];
  return [{ link, command: `tc -s qdisc show dev ${link}` }];
}

function xdpIn(message: Message): readonly Omit<FrameFilter, "at">[] {
  const words = linkWordsIn(message);
  const xdp = attributesIn(words?.attributes.get(IFLA_XDP));
  const attached = xdp.get(XDP_ATTACHED)?.[0] ?? 0;
  if (words === undefined || attached === 0) return [];
  return [{ link: words.base.name, command: `ip -d link show dev ${words.base.name}` }];
}

/** A rule that drops, or a chain whose policy does. */
const DROPS = /\b(drop|reject)\b/;

interface PrintedChain {
  /** FAMILY NAME */
  readonly table: string;
  readonly name: string;
  readonly lines: readonly string[];
}

function chainsIn(ruleset: string): readonly PrintedChain[] {
  return ruleset.split(/^(?=table )/m).flatMap((text) => {
    const [, table = ""] = /^table (\w+ \S+) \{/.exec(text) ?? [];
    return text.split(/^(?=\tchain )/m).flatMap((part) => {
      const [head = "", ...lines] = part.split("\n");
      const [, name] = /^\tchain (\S+) \{/.exec(head) ?? [];
      return name === undefined ? [] : [{ table, name, lines }];
    });
  });
}

function filterIn({ table, name, lines }: PrintedChain): readonly Omit<FrameFilter, "at">[] {
  const [family, ofTable = ""] = table.split(" ");
  const isOurs = ofTable.startsWith("patchbay-");
  if (isOurs || !lines.some((line) => DROPS.test(line))) return [];
  const command = `nft list chain ${table} ${name}`;
  if (family === "bridge") return [{ command }];
  const [, link] = /\bdevice "?([^\s";]+)"?/.exec(lines.join("\n")) ?? [];
  return family === "netdev" && link !== undefined ? [{ link, command }] : [];
}

/** Chains of links and of bridges that drop frames, from the text of a ruleset; our own tables are left out. */
export function parseFilters(ruleset: string): readonly Omit<FrameFilter, "at">[] {
  return chainsIn(ruleset).flatMap(filterIn);
}

async function readRuleset(runner: ProcessRunner, netns: NetnsHandle): Promise<string> {
  try {
    return await runIn(runner, netns, { program: "nft", args: ["-s", "list", "ruleset"] });
  } catch {
    // Rules are a hint: a node whose nft cannot print them is examined without.
    return "";
  }
}

/** What can drop frames on links and bridges. */
export async function readFilters(
  { netlink, runner }: { readonly netlink: Netlink; readonly runner: ProcessRunner },
  places: Places,
): Promise<readonly FrameFilter[]> {
  const all = await Promise.all(
    PLACES.map(async (at) => {
      const messages = await askWhole(netlink, places[at], [...LINKS, dumpOf(GET_QDISC, TC_HEAD)]);
      const names = namesIn(messages);
      const ofLinks = messages.flatMap((each) => [...qdiscFilterIn(each, names), ...xdpIn(each)]);
      const ofRules = parseFilters(await readRuleset(runner, places[at]));
      return [...ofLinks, ...ofRules].map((filter) => ({ at, ...filter }));
    }),
  );
  return all.flat();
}

/** Whether the ruleset treats packets from this address or its network on their own, as rules that translate for it do. */
export function mentionsSource(ruleset: string, address: string): boolean {
  const source = parseIp(address);
  return (
    source !== undefined &&
    [...ruleset.matchAll(/\bsaddr (\d[\d./]*)/g)].some(([, text = ""]) => {
      const subnet = parseIp(text);
      return subnet !== undefined && isWithin(source, networkOf(subnet));
    })
  );
}

/** Whether the node has rules for packets from this address. */
export async function translatesFor(
  runner: ProcessRunner,
  node: NetnsHandle,
  address: string,
): Promise<boolean> {
  return mentionsSource(await readRuleset(runner, node), address);
}
