// SPDX-License-Identifier: Apache-2.0
// What frames of the doctor's own say of a hop, whichever it is.
import { filterOn, frameLostAt, lossAt, questionLostAt } from "./blame.ts";
import type { FrameTrace, ProbeName, SeenWay, WayFacts, WayLink } from "./facts.ts";
import type { DoctorReason } from "./reasons.ts";
import type { HopName } from "./report.ts";
import { dead, withFix, type Verdict } from "./verdict.ts";

/** What each probe is, for people. */
const SAID: Readonly<Record<ProbeName, string>> = {
  inward: "ARP to the guest",
  inwardLarge: "large frames to the guest",
  outward: "ARP to the network",
  outwardLarge: "large frames to the network",
  echo: "pings to the network",
  echoLarge: "large pings to the network",
  echoPartial:
    "pings to the network whose checksum is left to the links, as guests' TCP leaves it,",
  own: "ARP for the guest's own address",
  dhcp: "questions by DHCP",
  ping: "pings to the guest",
  connect: "connections to the guest",
};
/** The plain frame that passes where only the other does not, and what that is called. */
const COMPARED: Partial<Readonly<Record<ProbeName, readonly [ProbeName, DoctorReason]>>> = {
  inwardLarge: ["inward", "MtuSmaller"],
  outwardLarge: ["outward", "MtuSmaller"],
  echoLarge: ["echo", "MtuSmaller"],
  echoPartial: ["echo", "ChecksumUnfinished"],
};
/** To these nobody need answer: only where the question is lost, is anything wrong. */
const UNANSWERED: readonly ProbeName[] = ["own", "dhcp", "outwardLarge"];
/** Links one behind the other. */
const WAY: readonly HopName[] = [
  ...(["guest", "tap", "podBridge", "podNic"] as const),
  ...(["nodePeer", "nodeBridge", "uplink", "gateway"] as const),
];

/** Hops of which it is known why they are dead, before frames are looked at. */
export type Faults = ReadonlyMap<HopName, string | undefined>;

/** Facts, and what is known from all but frames; absent: that is being found out. */
export interface JudgedFacts extends WayFacts {
  readonly faults?: Faults;
}

function blames(trace: FrameTrace, seen: SeenWay, hop: HopName): boolean {
  const isQuestion = UNANSWERED.includes(trace.probe);
  const lost = isQuestion ? questionLostAt(trace, seen) : frameLostAt(trace, seen);
  return lost === hop;
}

/** Whether the hop before or behind is known to be dead, for a reason by which such frames are lost. */
function isExplained(faults: Faults, hop: HopName, isOfSize: boolean): boolean {
  const at = WAY.indexOf(hop);
  return WAY.slice(Math.max(0, at - 1), at + 2).some(
    (near) => faults.has(near) && (faults.get(near) === "MtuSmaller") === isOfSize,
  );
}

/** What the loss of such frames is called; undefined: it tells nothing, since the plain one is not answered either. */
function reasonOf({ probe }: FrameTrace, { traces }: SeenWay): DoctorReason | undefined {
  const [plain, reason] = COMPARED[probe] ?? [];
  if (plain === undefined) return "FramesLost";
  const known = traces.find((trace) => trace.probe === plain);
  return known !== undefined && known.answered.length > 0 ? reason : undefined;
}

/** MAC that answers of the network must be addressed to. */
export function outsideMac({ device, seen }: WayFacts): string | undefined {
  return seen?.isBridged === true ? device?.mac : seen?.links.podNic?.mac;
}

/** Answers that go to another MAC are lost wherever that leads, and the host that sends them is at fault. */
export function isMisdirected(facts: WayFacts, { probe, to }: FrameTrace): boolean {
  const mac = outsideMac(facts);
  return probe.startsWith("echo") && mac !== undefined && to.length > 0 && !to.includes(mac);
}

function isLossy(seen: SeenWay): boolean {
  return (seen.losses ?? []).some((count) => lossAt(count, seen) !== undefined);
}

/** The command that shows what may drop frames at the hop. */
function filterFix(hop: HopName, seen: SeenWay): string {
  const filter = filterOn(hop, seen);
  if (filter === undefined) return "";
  const place = filter.at === "pod" ? "in the pod's network namespace" : "on the node";
  return `\`${filter.command}\` ${place} shows what may drop them; else `;
}

/** A part of the frames of a series is lost at the hop. */
export function lossyHop({ seen }: WayFacts, hop: HopName, name?: string): Verdict | undefined {
  for (const count of seen?.losses ?? []) {
    const loss = seen === undefined ? undefined : lossAt(count, seen);
    if (seen === undefined || loss?.hop !== hop) continue;
    const why = `${String(loss.lost)} of ${String(count.sent)} ${SAID[count.probe]} were lost here`;
    return withFix(filterFix(hop, seen), dead("LossyLink", why, name));
  }
  return undefined;
}

/** Probes that are repeated often enough to be answered on a link that loses half of all frames. */
const REPEATED: readonly ProbeName[] = ["inward", "outward"];

function tells(trace: FrameTrace, facts: WayFacts, seen: SeenWay): boolean {
  if (isMisdirected(facts, trace)) return false;
  return REPEATED.includes(trace.probe) || !isLossy(seen);
}

/** What is lost at the hop. */
export function lostFrames(facts: JudgedFacts, hop: HopName, name?: string): Verdict | undefined {
  const { seen, faults } = facts;
  if (seen === undefined || faults === undefined) return undefined;
  const lossy = lossyHop(facts, hop, name);
  if (lossy !== undefined) return lossy;
  const [lost] = seen.traces.flatMap((trace) => {
    const reason = reasonOf(trace, seen);
    const isTold = reason !== undefined && tells(trace, facts, seen);
    return isTold && blames(trace, seen, hop) ? [{ ...trace, reason }] : [];
  });
  if (lost === undefined) return undefined;
  if (isExplained(faults, hop, lost.reason === "MtuSmaller")) return undefined;
  const refusal = lost.refused === undefined ? "" : `; the kernel refuses: ${lost.refused}`;
  const why = `${SAID[lost.probe]} come this far and not further${refusal}`;
  return withFix(filterFix(hop, seen), dead(lost.reason, why, name));
}

/** Whether less passes it than the guest sends. */
export function smallerMtu(
  { device, seen }: WayFacts,
  { mtu, name }: WayLink,
): Verdict | undefined {
  const wanted = device?.mtu ?? seen?.links.tap?.mtu;
  if (wanted === undefined || mtu >= wanted) return undefined;
  const why = `its MTU is ${String(mtu)}, and the guest's ${String(wanted)}`;
  return dead("MtuSmaller", why, name);
}
