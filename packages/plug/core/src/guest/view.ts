// SPDX-License-Identifier: Apache-2.0
// What a guest is known to have, over several answers of its agent. One answer that leaves something out erases nothing:
// agents give empty answers now and then, while the guest starts or is busy.
import { parseIp, type IfaceStatus } from "@patchbay/api";
import type { GuestLink } from "./links.ts";

/** Since when, and how often in a row, something was left out of the answers. */
interface Missing {
  readonly sinceMs: number;
  readonly count: number;
}

/** What was last told of a thing; undefined: it was never told. */
interface Held<T> {
  readonly value: T | undefined;
  readonly missing?: Missing;
}

/** A link of the guest as it is known. */
export interface LinkView {
  readonly mac?: string;
  readonly name?: string;
  readonly ipv4: Held<readonly string[]>;
  readonly ipv6: Held<readonly string[]>;
  /** The whole link was left out. */
  readonly missing?: Missing;
}

/** Everything that is known of the guest's links. */
export interface GuestView {
  /** Of the VM's NICs, by MAC. */
  readonly nics: ReadonlyMap<string, LinkView>;
  /** Of the guest's own links, those that are known longest first. */
  readonly others: readonly LinkView[];
}

/** Of a guest whose agent was never heard. */
export const NO_VIEW: GuestView = { nics: new Map(), others: [] };

/** Left out for so long, and so often in a row, a thing is gone. */
const GONE_AFTER_MS = 60_000;
const GONE_AFTER_ANSWERS = 3;
/** Links of the guest's own that are remembered. */
const OTHERS_MAX = 256;

const UNKNOWN: Held<readonly string[]> = { value: undefined };

function nextMissing(before: Missing | undefined, nowMs: number): Missing {
  return { sinceMs: before?.sinceMs ?? nowMs, count: (before?.count ?? 0) + 1 };
}

function isGone({ sinceMs, count }: Missing, nowMs: number): boolean {
  return count >= GONE_AFTER_ANSWERS && nowMs - sinceMs >= GONE_AFTER_MS;
}

function isSameSet(left: readonly string[], right: readonly string[]): boolean {
  return left.length === right.length && left.every((entry) => right.includes(entry));
}

/** Addresses that are told in another order are the same. */
function holdAddresses(
  before: Held<readonly string[]>,
  told: readonly string[],
  nowMs: number,
): Held<readonly string[]> {
  if (told.length > 0) {
    const { value } = before;
    return { value: value !== undefined && isSameSet(value, told) ? value : told };
  }
  const missing = nextMissing(before.missing, nowMs);
  return isGone(missing, nowMs) ? { value: [] } : { value: before.value, missing };
}

const NEVER_KNOWN: LinkView = { ipv4: UNKNOWN, ipv6: UNKNOWN };

function nextLink(
  before: LinkView = NEVER_KNOWN,
  told: GuestLink | undefined,
  nowMs: number,
): LinkView {
  const { mac, name } = { ...before, ...told };
  return {
    ...(mac === undefined ? {} : { mac }),
    ...(name === undefined ? {} : { name }),
    ipv4: holdAddresses(before.ipv4, told?.ipv4 ?? [], nowMs),
    ipv6: holdAddresses(before.ipv6, told?.ipv6 ?? [], nowMs),
    ...(told === undefined ? { missing: nextMissing(before.missing, nowMs) } : {}),
  };
}

type Named = Pick<GuestLink, "mac" | "name">;

function isSameLink(left: Named, right: Named): boolean {
  return left.mac === right.mac && (left.mac !== undefined || left.name === right.name);
}

function nextNics(
  { nics }: GuestView,
  answer: readonly GuestLink[],
  { macs, nowMs }: Moment,
): GuestView["nics"] {
  const entries = macs.flatMap((mac): readonly (readonly [string, LinkView])[] => {
    const [before, told] = [nics.get(mac), answer.find((link) => link.mac === mac)];
    return before === undefined && told === undefined ? [] : [[mac, nextLink(before, told, nowMs)]];
  });
  return new Map(entries);
}

/** Those with addresses first: they are what people look for. */
function byUse(left: GuestLink, right: GuestLink): number {
  const [leftUse, rightUse] = [left, right].map(({ ipv4, ipv6 }) => ipv4.length + ipv6.length > 0);
  return Number(rightUse) - Number(leftUse);
}

function nextOthers(
  { others }: GuestView,
  answer: readonly GuestLink[],
  { macs, nowMs }: Moment,
): GuestView["others"] {
  const isOwn = ({ mac }: Named): boolean => mac !== undefined && macs.includes(mac);
  const told = answer.filter((link) => !isOwn(link));
  const known = others
    .filter((link) => !isOwn(link))
    .map((before) =>
      nextLink(
        before,
        told.find((link) => isSameLink(link, before)),
        nowMs,
      ),
    )
    .filter(({ missing }) => missing === undefined || !isGone(missing, nowMs));
  const fresh = told
    .filter((link) => !others.some((before) => isSameLink(link, before)))
    .toSorted(byUse)
    .map((link) => nextLink(undefined, link, nowMs));
  return [...known, ...fresh].slice(0, OTHERS_MAX);
}

/** Circumstances of an answer. */
interface Moment {
  /** Of the VM's NICs, lower case with colons. */
  readonly macs: readonly string[];
  /** Of a clock that never goes back. */
  readonly nowMs: number;
}

/** What is known after one more answer. An answer without any link is none. */
export function nextGuestView(
  view: GuestView,
  answer: readonly GuestLink[],
  moment: Moment,
): GuestView {
  if (answer.length === 0) return view;
  return { nics: nextNics(view, answer, moment), others: nextOthers(view, answer, moment) };
}

/** Addresses of a family as they were reported; where all are the guest's, none is its word too. */
function reportedAddresses(
  { ipAddresses = [], addressInfo }: IfaceStatus,
  family: 4 | 6,
): Held<readonly string[]> {
  const source = addressInfo?.source ?? "";
  if (!source.includes("guest-agent")) return UNKNOWN;
  const ofFamily = ipAddresses.filter((text) => parseIp(text)?.version === family);
  return source === "guest-agent" || ofFamily.length > 0 ? { value: ofFamily } : UNKNOWN;
}

function reportedLink(status: IfaceStatus): LinkView {
  const { mac, interfaceName } = status;
  return {
    ...(mac === undefined ? {} : { mac }),
    ...(interfaceName === undefined ? {} : { name: interfaceName }),
    ipv4: reportedAddresses(status, 4),
    ipv6: reportedAddresses(status, 6),
  };
}

/** What was known when it was reported, for a process that has heard nothing yet. */
export function guestViewOf(reported: readonly IfaceStatus[]): GuestView {
  const nics = reported.flatMap((status): readonly (readonly [string, LinkView])[] => {
    const { name, mac, infoSource } = status;
    const isKnown = infoSource?.includes("guest-agent") === true;
    return name === undefined || mac === undefined || !isKnown ? [] : [[mac, reportedLink(status)]];
  });
  const others = reported.filter(({ name }) => name === undefined);
  return { nics: new Map(nics), others: others.map(reportedOther) };
}

function reportedOther(status: IfaceStatus): LinkView {
  return reportedLink({ ...status, addressInfo: { source: "guest-agent", since: "" } });
}
