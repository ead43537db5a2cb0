// SPDX-License-Identifier: Apache-2.0
// Merges the reports of a guest agent over time. A busy agent may send an empty reply, so one reply without an item proves nothing.
import type { IfaceStatus } from "@patchbay/api";
import { firstByKey, parseIp } from "@patchbay/api/values";
import type { GuestLink } from "./links.ts";

interface PollHistory {
  readonly changedAgoMs: number;
  readonly queries: number;
  /** Time since the last query, in milliseconds. Ignored while `queries` is 0. */
  readonly queriedAgoMs: number;
  readonly failures: number;
}

/** Times of the first queries, in milliseconds after a change of NICs. A guest may need seconds to configure a new NIC. */
const POLL_DELAYS_MS: readonly number[] = [500, 3_000, 15_000, 60_000];
/**
 * Interval of the queries after those of {@link POLL_DELAYS_MS}, in milliseconds. After two or more failures in a row, the interval is
 * multiplied by 2 for each of these failures, up to {@link POLL_INTERVAL_MAX_MS}. Source: KubeVirt's agent poller.
 */
const POLL_INTERVAL_MS = 120_000;
/** Delay between a failed query and the next query, in milliseconds. Applies only to the first failure in a row. */
const FIRST_RETRY_DELAY_MS = 15_000;
const POLL_INTERVAL_MAX_MS = 960_000;

export function computeAgentPollDelayMs({
  changedAgoMs,
  queries,
  queriedAgoMs,
  failures,
}: PollHistory): number {
  const earlyDelayMs = POLL_DELAYS_MS[queries];
  if (earlyDelayMs !== undefined) return Math.max(0, earlyDelayMs - changedAgoMs);
  if (failures === 1) return Math.max(0, FIRST_RETRY_DELAY_MS - queriedAgoMs);
  const intervalMs = Math.min(POLL_INTERVAL_MAX_MS, POLL_INTERVAL_MS * 2 ** Math.min(failures, 10));
  return Math.max(0, intervalMs - queriedAgoMs);
}

/** Monotonic time of the first reply that omits an item, and the number of such replies in a row. */
interface MissingRecord {
  readonly sinceMs: number;
  readonly count: number;
}

interface LastReported<T> {
  readonly value: T | undefined;
  readonly missing?: MissingRecord;
}

export interface LinkView {
  readonly mac?: string;
  readonly name?: string;
  readonly ipv4: LastReported<readonly string[]>;
  readonly ipv6: LastReported<readonly string[]>;
  readonly missing?: MissingRecord;
}

export interface GuestView {
  readonly nics: ReadonlyMap<string, LinkView>;
  readonly otherLinks: readonly LinkView[];
}

export const EMPTY_GUEST_VIEW: GuestView = { nics: new Map(), otherLinks: [] };

// A NIC or link is removed after it was missing for at least this many milliseconds and in this many replies in a row.
const REMOVE_AFTER_MS = 60_000;
const REMOVE_AFTER_REPLIES = 3;
const OTHER_LINKS_MAX = 256;

const UNKNOWN_ADDRESSES: LastReported<readonly string[]> = { value: undefined };

function updateMissing(previous: MissingRecord | undefined, nowMs: number): MissingRecord {
  return { sinceMs: previous?.sinceMs ?? nowMs, count: (previous?.count ?? 0) + 1 };
}

function isExpired({ sinceMs, count }: MissingRecord, nowMs: number): boolean {
  return count >= REMOVE_AFTER_REPLIES && nowMs - sinceMs >= REMOVE_AFTER_MS;
}

function isSameSet(left: readonly string[], right: readonly string[]): boolean {
  return left.length === right.length && left.every((entry) => right.includes(entry));
}

/** Returns the reported addresses. Returns `previous` if only their order changed, or while addresses have been missing only briefly. */
function updateAddresses(
  previous: LastReported<readonly string[]>,
  reported: readonly string[],
  nowMs: number,
): LastReported<readonly string[]> {
  if (reported.length > 0) {
    const { value } = previous;
    return { value: value !== undefined && isSameSet(value, reported) ? value : reported };
  }
  const missing = updateMissing(previous.missing, nowMs);
  return isExpired(missing, nowMs) ? { value: [] } : { value: previous.value, missing };
}

const UNKNOWN_LINK: LinkView = { ipv4: UNKNOWN_ADDRESSES, ipv6: UNKNOWN_ADDRESSES };

function updateLink(
  previous: LinkView = UNKNOWN_LINK,
  reported: GuestLink | undefined,
  nowMs: number,
): LinkView {
  const { mac, name } = { ...previous, ...reported };
  return {
    ...(mac === undefined ? {} : { mac }),
    ...(name === undefined ? {} : { name }),
    ipv4: updateAddresses(previous.ipv4, reported?.ipv4 ?? [], nowMs),
    ipv6: updateAddresses(previous.ipv6, reported?.ipv6 ?? [], nowMs),
    ...(reported === undefined ? { missing: updateMissing(previous.missing, nowMs) } : {}),
  };
}

type LinkIdentity = Pick<GuestLink, "mac" | "name">;

function printLinkKey({ mac, name = "" }: LinkIdentity): string {
  return mac === undefined ? `name ${name}` : `mac ${mac}`;
}

function updateNics(
  { nics }: GuestView,
  answer: readonly GuestLink[],
  { macs, nowMs }: PollContext,
): GuestView["nics"] {
  const linkByMac = firstByKey(answer, ({ mac }) => mac);
  const entries = macs.flatMap((mac): readonly (readonly [string, LinkView])[] => {
    const [previous, reported] = [nics.get(mac), linkByMac.get(mac)];
    return previous === undefined && reported === undefined
      ? []
      : [[mac, updateLink(previous, reported, nowMs)]];
  });
  return new Map(entries);
}

/** Sorts links with addresses first, because only the first {@link OTHER_LINKS_MAX} links are retained. */
function compareHasAddresses(left: GuestLink, right: GuestLink): number {
  const [hasLeft, hasRight] = [left, right].map(({ ipv4, ipv6 }) => ipv4.length + ipv6.length > 0);
  return Number(hasRight) - Number(hasLeft);
}

function updateOtherLinks(
  { otherLinks }: GuestView,
  answer: readonly GuestLink[],
  { macs, nowMs }: PollContext,
): GuestView["otherLinks"] {
  const ownMacs = new Set(macs);
  const isOwn = ({ mac }: LinkIdentity): boolean => mac !== undefined && ownMacs.has(mac);
  const reported = answer.filter((link) => !isOwn(link));
  const reportedByKey = firstByKey(reported, printLinkKey);
  const knownKeys = new Set(otherLinks.map(printLinkKey));
  const knownLinks = otherLinks
    .filter((link) => !isOwn(link))
    .map((previous) => updateLink(previous, reportedByKey.get(printLinkKey(previous)), nowMs))
    .filter(({ missing }) => missing === undefined || !isExpired(missing, nowMs));
  const newLinks = reported
    .filter((link) => !knownKeys.has(printLinkKey(link)))
    .toSorted(compareHasAddresses)
    .map((link) => updateLink(undefined, link, nowMs));
  return [...knownLinks, ...newLinks].slice(0, OTHER_LINKS_MAX);
}

interface PollContext {
  readonly macs: readonly string[];
  /** Monotonic time, in milliseconds. */
  readonly nowMs: number;
}

export function updateGuestView(
  view: GuestView,
  answer: readonly GuestLink[],
  context: PollContext,
): GuestView {
  if (answer.length === 0) return view;
  return {
    nics: updateNics(view, answer, context),
    otherLinks: updateOtherLinks(view, answer, context),
  };
}

/**
 * Returns the addresses of the family that, according to the interface's status, the guest agent reported. Returns unknown if the agent is
 * not a source of the status. Also returns unknown if the pod is a source too and the family has no addresses, because the agent may not
 * have reported this family.
 */
function restoreAddresses(
  { ipAddresses = [], addressInfo }: IfaceStatus,
  family: 4 | 6,
): LastReported<readonly string[]> {
  const source = addressInfo?.source ?? "";
  if (!source.includes("guest-agent")) return UNKNOWN_ADDRESSES;
  const ofFamily = ipAddresses.filter((text) => parseIp(text)?.version === family);
  return source === "guest-agent" || ofFamily.length > 0 ? { value: ofFamily } : UNKNOWN_ADDRESSES;
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
