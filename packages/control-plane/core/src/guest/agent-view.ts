// SPDX-License-Identifier: Apache-2.0
// Accumulates the reports of a guest's agent. One reply that omits something erases nothing: agents send empty replies now
// and then while the guest starts or is busy.
import type { IfaceStatus } from "@patchbay/api";
import { parseIp } from "@patchbay/api/values";
import type { GuestLink } from "./links.ts";

interface PollHistory {
  readonly changedAgoMs: number;
  readonly queries: number;
  /** Time since the last query. Meaningful only if there was one. */
  readonly queriedAgoMs: number;
  readonly failures: number;
}

/**
 * Delays after a change, in milliseconds. A guest has a new NIC after 80 ms (measured, Linux 6.1), udev may rename it
 * within seconds, and slow guests take longer.
 */
const POLL_DELAYS_MS: readonly number[] = [500, 3_000, 15_000, 60_000];
/** Later interval, because someone in the guest may add an address. Source: KubeVirt's agent poller. */
const POLL_INTERVAL_MS = 120_000;
/** Delay after the first failure. It is short because two failures in a row show that the agent hangs. */
const FIRST_RETRY_DELAY_MS = 15_000;
/** Longest interval for an agent that does not reply: each query blocks its VM for 2 s. */
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

/** When an item was first missing from the replies, and from how many in a row. */
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

/** An item is removed after it was missing this long and in this many replies in a row. */
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

/** Keeps the old list if only the order changed. */
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

type Named = Pick<GuestLink, "mac" | "name">;

function isSameLink(left: Named, right: Named): boolean {
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

/** Links with addresses first, because users look for those. */
function compareUse(left: GuestLink, right: GuestLink): number {
  const [leftUse, rightUse] = [left, right].map(({ ipv4, ipv6 }) => ipv4.length + ipv6.length > 0);
  return Number(rightUse) - Number(leftUse);
}

function nextOtherLinks(
  { otherLinks }: GuestView,
  answer: readonly GuestLink[],
  { macs, nowMs }: PollContext,
): GuestView["otherLinks"] {
  const isOwn = ({ mac }: Named): boolean => mac !== undefined && macs.includes(mac);
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
    .toSorted(compareUse)
    .map((link) => nextLink(undefined, link, nowMs));
  return [...known, ...fresh].slice(0, OTHER_LINKS_MAX);
}

interface PollContext {
  readonly macs: readonly string[];
  /** Monotonic time. */
  readonly nowMs: number;
}

export function nextGuestView(
  view: GuestView,
  answer: readonly GuestLink[],
  moment: PollContext,
): GuestView {
  if (answer.length === 0) return view;
  return { nics: nextNics(view, answer, moment), otherLinks: nextOtherLinks(view, answer, moment) };
}

/** Addresses of one family in the status. An empty list counts as the guest's report only if the agent is the only source. */
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
    const isExisting = infoSource?.includes("guest-agent") === true;
    return name === undefined || mac === undefined || !isExisting
      ? []
      : [[mac, restoreLink(status)]];
  });
  const otherLinks = reported.filter(({ name }) => name === undefined);
  return { nics: new Map(nics), otherLinks: otherLinks.map(restoreOtherLink) };
}

function restoreOtherLink(status: IfaceStatus): LinkView {
  return restoreLink({ ...status, addressInfo: { source: "guest-agent", since: "" } });
}
