// SPDX-License-Identifier: Apache-2.0
import { AppError } from "@patchbay/base";
import type { NicAddresses, NicNeighbor } from "@patchbay/core/nics";
import type { Netlink, NetlinkAnswer, NetnsHandle } from "@patchbay/core/interfaces";
import type { ForwardingEntry, WiredLink } from "../links.ts";
import {
  REQUEST_ACK,
  decodeAttributes,
  decodeMessages,
  describeErrno,
  REQUEST_DUMP,
  encodeMessage,
  type Message,
} from "./message.ts";
import { decodeRateLimits, hasRateLimit, type RateLimits } from "./rate-limits.ts";
import {
  AF_BRIDGE,
  AF_INET,
  AF_INET6,
  decodeForwarding,
  decodeLinks,
  decodeNicAddresses,
  decodePermanentNeighbors,
  MESSAGE_HEADER_BYTES,
  RTM,
} from "./rtnetlink.ts";

/** Maximum number of attempts to dump a table that changes during the dump. */
const DUMP_ATTEMPTS_MAX = 4;

export function buildDumpRequest(type: number, headBytes: number, family = 0): Uint8Array {
  const header = new Uint8Array(headBytes);
  header[0] = family;
  return encodeMessage({ type, flags: REQUEST_DUMP }, header);
}

export const LINK_REQUESTS = [
  buildDumpRequest(RTM.getLink, MESSAGE_HEADER_BYTES.link),
  buildDumpRequest(RTM.getAddress, MESSAGE_HEADER_BYTES.address),
];
const QDISC_REQUEST = buildDumpRequest(RTM.getQdisc, MESSAGE_HEADER_BYTES.qdisc);
const FORWARDING_REQUEST = buildDumpRequest(
  RTM.getNeighbour,
  MESSAGE_HEADER_BYTES.neighbour,
  AF_BRIDGE,
);

function decodeAnswers(answers: readonly NetlinkAnswer[]): readonly Message[] {
  const refusedAnswer = answers.find(({ errno }) => errno !== 0);
  if (refusedAnswer === undefined) return answers.flatMap(({ data }) => decodeMessages(data));
  const message = `the kernel refused to list links and routes: ${describeErrno(refusedAnswer.errno)}`;
  throw new AppError("PODNET_FAILED", { message });
}

export async function dumpTables(
  netlink: Netlink,
  netns: NetnsHandle,
  requests: readonly Uint8Array[],
): Promise<readonly Message[]> {
  for (let attempt = 1; ; attempt += 1) {
    const messages = decodeAnswers(await netlink.exchangeMessages(netns, "route", requests));
    if (attempt === DUMP_ATTEMPTS_MAX || !messages.some(({ isInterrupted }) => isInterrupted))
      return messages;
  }
}

export async function queryLinks(
  netlink: Netlink,
  netns: NetnsHandle,
): Promise<readonly WiredLink[]> {
  return decodeLinks(await dumpTables(netlink, netns, LINK_REQUESTS));
}

export async function queryLinkIndices(
  netlink: Netlink,
  netns: NetnsHandle,
): Promise<ReadonlyMap<string, number>> {
  const links = decodeLinks(await dumpTables(netlink, netns, LINK_REQUESTS.slice(0, 1)));
  return new Map(links.map(({ name, index }) => [name, index]));
}

const ROUTE_REQUESTS = [AF_INET, AF_INET6].map((family) =>
  buildDumpRequest(RTM.getRoute, MESSAGE_HEADER_BYTES.route, family),
);

export function queryRoutes(netlink: Netlink, netns: NetnsHandle): Promise<readonly Message[]> {
  return dumpTables(netlink, netns, ROUTE_REQUESTS);
}

export function queryLinksAndRoutes(
  netlink: Netlink,
  netns: NetnsHandle,
): Promise<readonly Message[]> {
  return dumpTables(netlink, netns, [...LINK_REQUESTS, ...ROUTE_REQUESTS]);
}

export async function queryNic(
  netlink: Netlink,
  netns: NetnsHandle,
  name: string,
): Promise<(NicAddresses & { readonly index: number }) | undefined> {
  const messages = await queryLinksAndRoutes(netlink, netns);
  const nic = decodeLinks(messages).find((link) => link.name === name);
  return nic === undefined
    ? undefined
    : { index: nic.index, ...decodeNicAddresses(messages, nic.index) };
}

const NEIGHBOR_REQUESTS = [AF_INET, AF_INET6].map((family) =>
  buildDumpRequest(RTM.getNeighbour, MESSAGE_HEADER_BYTES.neighbour, family),
);

export async function queryPermanentNeighbors(
  netlink: Netlink,
  netns: NetnsHandle,
  index: number,
): Promise<readonly NicNeighbor[]> {
  return decodePermanentNeighbors(await dumpTables(netlink, netns, NEIGHBOR_REQUESTS), index);
}

/** Reads links, forwarding entries and rate limits. Lists queueing disciplines only if a link has a limit. */
export async function queryForwarding(
  netlink: Netlink,
  netns: NetnsHandle,
): Promise<{
  readonly links: readonly WiredLink[];
  readonly forwarding: readonly ForwardingEntry[];
  readonly limits: RateLimits;
}> {
  const messages = await dumpTables(netlink, netns, [...LINK_REQUESTS, FORWARDING_REQUEST]);
  const links = decodeLinks(messages);
  const qdiscs = messages.some(hasRateLimit)
    ? await dumpTables(netlink, netns, [QDISC_REQUEST])
    : [];
  return {
    links,
    forwarding: decodeForwarding(messages, links),
    limits: decodeRateLimits(qdiscs, links),
  };
}

/** Source: linux/netfilter/nfnetlink.h, nf_tables.h: NFT_MSG_GETGEN, NFT_MSG_GETTABLE, NFTA_GEN_ID */
const [GET_GENERATION, NEW_GENERATION, GET_TABLE] = [0x0a10, 0x0a0f, 0x0a01];
const GENERATION_ID = 1;
/** struct nfgenmsg with zero values. */
const NETFILTER_HEAD = new Uint8Array(4);
const RULE_REQUESTS = [
  encodeMessage({ type: GET_GENERATION, flags: REQUEST_ACK }, NETFILTER_HEAD),
  encodeMessage({ type: GET_TABLE, flags: REQUEST_DUMP }, NETFILTER_HEAD),
];

interface RulesState {
  /** Generation of the rules, in hexadecimal. Each change increases it. Undefined if the kernel reports none. */
  readonly generation: string | undefined;
  /** Whether the namespace has nftables tables. Also true if the kernel rejects the request for them. */
  readonly hasTables: boolean;
}

export async function queryRules(netlink: Netlink, netns: NetnsHandle): Promise<RulesState> {
  const answers = await netlink.exchangeMessages(netns, "netfilter", RULE_REQUESTS);
  if (answers.some(({ errno }) => errno !== 0)) return { generation: undefined, hasTables: true };
  const [generationMessages, tableMessages] = answers.map(({ data }) => decodeMessages(data));
  const generation = generationMessages?.find(({ type }) => type === NEW_GENERATION);
  const generationId = decodeAttributes(generation?.body, NETFILTER_HEAD.length).get(GENERATION_ID);
  return {
    generation: generationId === undefined ? undefined : Buffer.from(generationId).toString("hex"),
    hasTables: tableMessages === undefined || tableMessages.length > 0,
  };
}

export function isNextGeneration(before: string | undefined, after: string | undefined): boolean {
  if (before === undefined || after === undefined) return false;
  return Number.parseInt(before, 16) + 1 === Number.parseInt(after, 16);
}
