// SPDX-License-Identifier: Apache-2.0
// Accumulates the reports of a guest's agent. A single reply that omits an item does not erase it, because agents of busy or
// starting guests send empty replies.
import type { IfaceStatus } from "@patchbay/api";
import { parseIp } from "@patchbay/api/values";
import type { GuestLink } from "./links.ts";

interface PollHistory {
  readonly changedAgoMs: number;
  readonly queries: number;
  /** Time since the last query, in milliseconds. Meaningless if there was none. */
  readonly queriedAgoMs: number;
  readonly failures: number;
}

/**
 * Delays of the first queries after a change, in milliseconds. A guest has a new NIC after 80 ms (measured with Linux 6.1),
 * and udev may rename it within seconds.
 */
const POLL_DELAYS_MS: readonly number[] = [500, 3_000, 15_000, 60_000];
/** Interval of later queries, because users of the guest may add addresses. Source: KubeVirt's agent poller. */
const POLL_INTERVAL_MS = 120_000;
/** Delay after the first failure. A second failure in a row shows that the agent hangs. */
const FIRST_RETRY_DELAY_MS = 15_000;
/** Longest interval for an agent that does not reply. Each such query blocks operations on the VM for 2 s. */
const POLL_INTERVAL_MAX_MS = 960_000;

export function nextAgentPollMs({
  changedAgoMs,
  queries,
  queriedAgoMs,
  failures,
}: PollHistory): number {
  const soonMs = POLL_DELAYS_MS[queries];
  if (soonMs !== undefined) return Math.max(0, soonMs - changedAgoMs);
  if (failures === 1) return Math.max(0, FIRST_RETRY_DELAY_MS - queriedAgoMs);
  const everyMs = Math.min(POLL_INTERVAL_MAX_MS, POLL_INTERVAL_MS * 2 ** Math.min(failures, 10));
  return Math.max(0, everyMs - queriedAgoMs);
}

/** When an item was first missing, in monotonic time, and from how many replies in a row it has been missing. */
interface Missing {
  readonly sinceMs: number;
  readonly count: number;
}

interface LastReported<T> {
  readonly value: T | undefined;
  readonly missing?: Missing;
}

export interface LinkView {
  readonly mac?: string;
  readonly name?: string;
  readonly ipv4: LastReported<readonly string[]>;
  readonly ipv6: LastReported<readonly string[]>;
  /** Set while the replies omit the whole link. */
  readonly missing?: Missing;
}

export interface GuestView {
  readonly nics: ReadonlyMap<string, LinkView>;
  readonly otherLinks: readonly LinkView[];
}

export const EMPTY_VIEW: GuestView = { nics: new Map(), otherLinks: [] };

/** An item is removed when it was missing for this time and in {@link REMOVE_AFTER_REPLIES} replies in a row. */
const REMOVE_AFTER_MS = 60_000;
const REMOVE_AFTER_REPLIES = 3;
const OTHER_LINKS_MAX = 256;

const UNKNOWN: LastReported<readonly string[]> = { value: undefined };

function nextMissing(before: Missing | undefined, nowMs: number): Missing {
  return { sinceMs: before?.sinceMs ?? nowMs, count: (before?.count ?? 0) + 1 };
}

function isExpired({ sinceMs, count }: Missing, nowMs: number): boolean {
  return count >= REMOVE_AFTER_REPLIES && nowMs - sinceMs >= REMOVE_AFTER_MS;
}

function isSameSet(left: readonly string[], right: readonly string[]): boolean {
  return left.length === right.length && left.every((entry) => right.includes(entry));
}

/** Returns the reported addresses, or the old list if only the order changed or none are reported for a short time. */
function nextAddresses(
  before: LastReported<readonly string[]>,
  reported: readonly string[],
  nowMs: number,
): LastReported<readonly string[]> {
  if (reported.length > 0) {
    const { value } = before;
    return { value: value !== undefined && isSameSet(value, reported) ? value : reported };
  }
  const missing = nextMissing(before.missing, nowMs);
  return isExpired(missing, nowMs) ? { value: [] } : { value: before.value, missing };
}

const UNKNOWN_LINK: LinkView = { ipv4: UNKNOWN, ipv6: UNKNOWN };

function nextLink(
  before: LinkView = UNKNOWN_LINK,
  reported: GuestLink | undefined,
  nowMs: number,
): LinkView {
  const { mac, name } = { ...before, ...reported };
  return {
    ...(mac === undefined ? {} : { mac }),
    ...(name === undefined ? {} : { name }),
    ipv4: nextAddresses(before.ipv4, reported?.ipv4 ?? [], nowMs),
    ipv6: nextAddresses(before.ipv6, reported?.ipv6 ?? [], nowMs),
    ...(reported === undefined ? { missing: nextMissing(before.missing, nowMs) } : {}),
  };
}

type LinkIdentity = Pick<GuestLink, "mac" | "name">;

function isSameLink(left: LinkIdentity, right: LinkIdentity): boolean {
  return left.mac === right.mac && (left.mac !== undefined || left.name === right.name);
}

function nextNics(
  { nics }: GuestView,
  answer: readonly GuestLink[],
  { macs, nowMs }: PollContext,
): GuestView["nics"] {
  const entries = macs.flatMap((mac): readonly (readonly [string, LinkView])[] => {
    const [before, reported] = [nics.get(mac), answer.find((link) => link.mac === mac)];
    return before === undefined && reported === undefined
      ? []
      : [[mac, nextLink(before, reported, nowMs)]];
  });
  return new Map(entries);
}

/** Sorts links with addresses first, because only {@link OTHER_LINKS_MAX} links are retained. */
function compareHasAddresses(left: GuestLink, right: GuestLink): number {
  const [hasLeft, hasRight] = [left, right].map(({ ipv4, ipv6 }) => ipv4.length + ipv6.length > 0);
  return Number(hasRight) - Number(hasLeft);
}

function nextOtherLinks(
  { otherLinks }: GuestView,
  answer: readonly GuestLink[],
  { macs, nowMs }: PollContext,
): GuestView["otherLinks"] {
  const isOwn = ({ mac }: LinkIdentity): boolean => mac !== undefined && macs.includes(mac);
  const reported = answer.filter((link) => !isOwn(link));
  const known = otherLinks
    .filter((link) => !isOwn(link))
    .map((before) =>
      nextLink(
        before,
        reported.find((link) => isSameLink(link, before)),
        nowMs,
      ),
    )
    .filter(({ missing }) => missing === undefined || !isExpired(missing, nowMs));
  const fresh = reported
    .filter((link) => !otherLinks.some((before) => isSameLink(link, before)))
    .toSorted(compareHasAddresses)
    .map((link) => nextLink(undefined, link, nowMs));
  return [...known, ...fresh].slice(0, OTHER_LINKS_MAX);
}

interface PollContext {
  readonly macs: readonly string[];
  /** Monotonic time, in milliseconds. */
  readonly nowMs: number;
}

export function nextGuestView(
  view: GuestView,
  answer: readonly GuestLink[],
  context: PollContext,
): GuestView {
  if (answer.length === 0) return view;
  return {
    nics: nextNics(view, answer, context),
    otherLinks: nextOtherLinks(view, answer, context),
  };
}

/** Restores the agent's addresses of one family. An empty list is the agent's report only if it is the only source. */
function restoreAddresses(
  { ipAddresses = [], addressInfo }: IfaceStatus,
  family: 4 | 6,
): LastReported<readonly string[]> {
  const source = addressInfo?.source ?? "";
  if (!source.includes("guest-agent")) return UNKNOWN;
  const ofFamily = ipAddresses.filter((text) => parseIp(text)?.version === family);
  return source === "guest-agent" || ofFamily.length > 0 ? { value: ofFamily } : UNKNOWN;
}

function restoreLink(status: IfaceStatus): LinkView {
  const { mac, interfaceName } = status;
  return {
    ...(mac === undefined ? {} : { mac }),
    ...(interfaceName === undefined ? {} : { name: interfaceName }),
    ipv4: restoreAddresses(status, 4),
    ipv6: restoreAddresses(status, 6),
  };
}

export function restoreGuestView(reported: readonly IfaceStatus[]): GuestView {
  const nics = reported.flatMap((status): readonly (readonly [string, LinkView])[] => {
    const { name, mac, infoSource } = status;
    const isFromAgent = infoSource?.includes("guest-agent") === true;
    return name === undefined || mac === undefined || !isFromAgent
      ? []
      : [[mac, restoreLink(status)]];
  });
  const otherLinks = reported.filter(({ name }) => name === undefined);
  return { nics: new Map(nics), otherLinks: otherLinks.map(restoreOtherLink) };
}

function restoreOtherLink(status: IfaceStatus): LinkView {
  return restoreLink({ ...status, addressInfo: { source: "guest-agent", since: "" } });
}
