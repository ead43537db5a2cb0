// SPDX-License-Identifier: Apache-2.0
// Asks the kernel what is in a pod's namespace.
import { AppError, type NicAddresses } from "@patchbay/core";
import type { Netlink, NetlinkAnswer, NetnsHandle } from "@patchbay/core/ports";
import type { ForwardingEntry, WiredLink } from "../links.ts";
import { sayErrno } from "./errno.ts";
import { ACK, attributesIn, DUMP, messageOf, messagesIn, type Message } from "./message.ts";
import { givenIn } from "./nic.ts";
import { AF_BRIDGE, AF_INET, AF_INET6, forwardingIn, HEAD, linksIn, RTM } from "./rtnetlink.ts";

/** Looks at what changes all the while; the last is taken as it is, since the next change wakes. */
const LOOKS_MAX = 4;

/** A question for all of a kind. */
export function dumpOf(type: number, headBytes: number, family = 0): Uint8Array {
  const head = new Uint8Array(headBytes);
  head[0] = family;
  return messageOf({ type, flags: DUMP }, head);
}

/** All links and addresses. */
export const LINKS = [dumpOf(RTM.getLink, HEAD.link), dumpOf(RTM.getAddress, HEAD.address)];
const FORWARDING = dumpOf(RTM.getNeighbour, HEAD.neighbour, AF_BRIDGE);

function messagesOf(answers: readonly NetlinkAnswer[]): readonly Message[] {
  const refused = answers.find(({ errno }) => errno !== 0);
  if (refused === undefined) return answers.flatMap(({ data }) => messagesIn(data));
  const message = `the kernel refused to list links and routes: ${sayErrno(refused.errno)}`;
  throw new AppError("PODNET_FAILED", { message });
}

/** Asks until what is told did not change meanwhile. */
export async function askWhole(
  netlink: Netlink,
  netns: NetnsHandle,
  questions: readonly Uint8Array[],
): Promise<readonly Message[]> {
  for (let look = 1; ; look += 1) {
    const messages = messagesOf(await netlink.talk(netns, "route", questions));
    if (look === LOOKS_MAX || !messages.some(({ isInterrupted }) => isInterrupted)) return messages;
  }
}

/** All links, sorted by name. */
export async function askLinks(
  netlink: Netlink,
  netns: NetnsHandle,
): Promise<readonly WiredLink[]> {
  return linksIn(await askWhole(netlink, netns, LINKS));
}

/** Indices of all links, by name. */
export async function askIndexes(
  netlink: Netlink,
  netns: NetnsHandle,
): Promise<ReadonlyMap<string, number>> {
  const links = linksIn(await askWhole(netlink, netns, LINKS.slice(0, 1)));
  return new Map(links.map(({ name, index }) => [name, index]));
}

const ROUTES = [AF_INET, AF_INET6].map((family) => dumpOf(RTM.getRoute, HEAD.route, family));

/** All routes. */
export function askRoutes(netlink: Netlink, netns: NetnsHandle): Promise<readonly Message[]> {
  return askWhole(netlink, netns, ROUTES);
}

/** All links, addresses and routes, as they are told. */
export function askEverything(netlink: Netlink, netns: NetnsHandle): Promise<readonly Message[]> {
  return askWhole(netlink, netns, [...LINKS, ...ROUTES]);
}

/** The NIC of that name, and what it was given; undefined: it is not there. */
export async function askNic(
  netlink: Netlink,
  netns: NetnsHandle,
  name: string,
): Promise<(NicAddresses & { readonly index: number }) | undefined> {
  const messages = await askEverything(netlink, netns);
  const nic = linksIn(messages).find((link) => link.name === name);
  return nic === undefined ? undefined : { index: nic.index, ...givenIn(messages, nic.index) };
}

/** All links, and what bridges forward to which of them. */
export async function askForwarding(
  netlink: Netlink,
  netns: NetnsHandle,
): Promise<{
  readonly links: readonly WiredLink[];
  readonly forwarding: readonly ForwardingEntry[];
}> {
  const messages = await askWhole(netlink, netns, [...LINKS, FORWARDING]);
  const links = linksIn(messages);
  return { links, forwarding: forwardingIn(messages, links) };
}

/** Source: linux/netfilter/nfnetlink.h and nf_tables.h: NFNL_SUBSYS_NFTABLES, NFT_MSG_GETGEN, NFT_MSG_GETTABLE, NFTA_GEN_ID. */
const [GET_GENERATION, NEW_GENERATION, GET_TABLE] = [0x0a10, 0x0a0f, 0x0a01];
const GENERATION_ID = 1;
/** Source: struct nfgenmsg */
const NETFILTER_HEAD = new Uint8Array(4);
const RULES = [
  messageOf({ type: GET_GENERATION, flags: ACK }, NETFILTER_HEAD),
  messageOf({ type: GET_TABLE, flags: DUMP }, NETFILTER_HEAD),
];

/** How the rules of a namespace are, without being read. */
export interface RulesState {
  /** Another number after each change, hexadecimal; undefined: the kernel does not tell. */
  readonly generation: string | undefined;
  /** Whether there is a table; also where the kernel does not tell. */
  readonly hasTables: boolean;
}

/** Asks for the state of the rules. */
export async function askRules(netlink: Netlink, netns: NetnsHandle): Promise<RulesState> {
  const answers = await netlink.talk(netns, "netfilter", RULES);
  if (answers.some(({ errno }) => errno !== 0)) return { generation: undefined, hasTables: true };
  const [first, tables] = answers.map(({ data }) => messagesIn(data));
  const told = first?.find(({ type }) => type === NEW_GENERATION);
  const id = attributesIn(told?.body, NETFILTER_HEAD.length).get(GENERATION_ID);
  return {
    generation: id === undefined ? undefined : Buffer.from(id).toString("hex"),
    hasTables: tables === undefined || tables.length > 0,
  };
}
