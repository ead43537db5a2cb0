// SPDX-License-Identifier: Apache-2.0
import { parseIp } from "@patchbay/api/values";
import type {
  ForwardedPing,
  FrameTrace,
  HopName,
  LossCount,
  ProbeName,
} from "@patchbay/core/doctor";
import type { Clock } from "@patchbay/base";
import type { ReceivedFrames, Netlink, NetnsHandle } from "@patchbay/core/interfaces";
import { describeErrno } from "../netlink/message.ts";
import type { StateSources } from "../netlink/netns-state.ts";
import { addressBytes, macText } from "../netlink/rtnetlink.ts";
import { isArp, matchesFrame, buildPing } from "./frames.ts";
import type { Probe } from "./probes.ts";
import type { NodeRoute } from "./surroundings.ts";

/** Duration of one exchange of frames, in milliseconds. */
export const EXCHANGE_MS = 200;
/** Attempts after which an unanswered frame counts as lost. */
const LOST_ATTEMPTS_MIN = 2;
/** Duration of one series, in milliseconds, and maximum number of series. */
export const [SERIES_MS, SERIES_MAX] = [300, 2];

export interface DoctorSources extends StateSources {
  readonly clock: Pick<Clock, "monotonicMs">;
}

export interface CapturePoint {
  readonly hop: HopName;
  readonly netns: NetnsHandle;
  readonly link: string;
}

interface ProbeTrail {
  readonly probeSeenAt: Set<HopName>;
  readonly replySeenAt: Set<HopName>;
  readonly repliedFrom: Set<string>;
  readonly repliedTo: Set<string>;
  refusal: string | undefined;
  attempts: number;
}

/** Trails by name of the probe; probes with the same name share one. */
type Trails = Map<ProbeName, ProbeTrail>;

function getTrail(trails: Trails, probe: ProbeName): ProbeTrail {
  const hops = { probeSeenAt: new Set<HopName>(), replySeenAt: new Set<HopName>() };
  const made = { ...hops, repliedFrom: new Set<string>(), repliedTo: new Set<string>() };
  const trail = trails.get(probe) ?? { ...made, refusal: undefined, attempts: 0 };
  trails.set(probe, trail);
  return trail;
}

/** Offset of the sender's MAC in an ARP frame. Source: RFC 826, ar$sha */
const ARP_SENDER_AT = 22;

/** Returns the MAC that answered: of a gateway the one in its ARP answer, because a virtual router sends from another. */
function answeringMac(probe: ProbeName, frame: Uint8Array): string {
  const at = probe === "outward" && isArp(frame) ? ARP_SENDER_AT : 6;
  return macText(frame.subarray(at, at + 6));
}

function recordFrames(
  trails: Trails,
  {
    probes,
    capturePoints,
  }: { readonly probes: readonly Probe[]; readonly capturePoints: readonly CapturePoint[] },
  captured: ReceivedFrames,
): void {
  for (const { port, frame } of captured.frames) {
    const hop = capturePoints[port]?.hop;
    if (hop === undefined) continue;
    for (const { probe, frame: sent } of probes) {
      const trail = getTrail(trails, probe);
      if (matchesFrame(frame, sent.probeTests)) trail.probeSeenAt.add(hop);
      if (!matchesFrame(frame, sent.answerTests)) continue;
      trail.replySeenAt.add(hop);
      trail.repliedFrom.add(answeringMac(probe, frame));
      trail.repliedTo.add(macText(frame.subarray(0, 6)));
    }
  }
  for (const [at, { probe }] of probes.entries()) {
    const errno = captured.unsent[at] ?? 0;
    const trail = getTrail(trails, probe);
    trail.attempts += 1;
    if (errno !== 0) trail.refusal = describeErrno(errno);
  }
}

/** Returns no trace of a single attempt without an answer, because one lost frame proves nothing. */
function toTrace(probe: ProbeName, trail: ProbeTrail): readonly FrameTrace[] {
  const { probeSeenAt, replySeenAt, repliedFrom, repliedTo, refusal, attempts } = trail;
  if (replySeenAt.size === 0 && attempts < LOST_ATTEMPTS_MIN) return [];
  return [
    {
      probe,
      probeSeenAt: [...probeSeenAt],
      replySeenAt: [...replySeenAt],
      repliedFrom: [...repliedFrom],
      repliedTo: [...repliedTo],
      ...(refusal === undefined ? {} : { refused: refusal }),
    },
  ];
}

export async function sendProbes(
  { netlink, clock }: DoctorSources,
  capturePoints: readonly CapturePoint[],
  { probes, untilMs }: { readonly probes: readonly Probe[]; readonly untilMs: number },
): Promise<readonly FrameTrace[]> {
  const trails: Trails = new Map();
  for (let round = 1; clock.monotonicMs() + EXCHANGE_MS <= untilMs; round += 1) {
    const open = probes.filter(
      ({ probe, attempts }) => round <= attempts && getTrail(trails, probe).replySeenAt.size === 0,
    );
    if (open.length === 0) break;
    const sends = open.map(({ from, frame: probeFrame }) => {
      const port = capturePoints.findIndex(({ hop }) => hop === from);
      const { frame, checksum } = probeFrame;
      return { port, frame, ...(checksum !== undefined && { checksum }) };
    });
    const tests = probes.flatMap(({ frame: { answerTests, probeTests } }) => [
      answerTests,
      probeTests,
    ]);
    const captured = await netlink.exchangeFrames({
      ports: capturePoints,
      sends,
      tests,
      ms: EXCHANGE_MS,
    });
    recordFrames(trails, { probes: open, capturePoints }, captured);
  }
  return [...trails].flatMap(([probe, trail]) => toTrace(probe, trail));
}

/** Sends a series, and a second one if frames of the first were lost. */
export async function countLosses(
  { netlink, clock }: DoctorSources,
  capturePoints: readonly CapturePoint[],
  next: { readonly probes: () => readonly Probe[]; readonly untilMs: number },
): Promise<readonly LossCount[]> {
  let counted: readonly LossCount[] = [];
  for (let round = 1; round <= SERIES_MAX; round += 1) {
    const probes = next.probes();
    if (probes.length === 0 || clock.monotonicMs() + SERIES_MS > next.untilMs) break;
    const captured = await netlink.exchangeFrames({
      ports: capturePoints,
      sends: probes.map(({ from, frame: { frame } }) => {
        return { port: capturePoints.findIndex(({ hop }) => hop === from), frame };
      }),
      tests: probes.flatMap(({ frame: { answerTests, probeTests } }) => [answerTests, probeTests]),
      ms: SERIES_MS,
    });
    const hops = capturePoints.map(({ hop }) => hop);
    const counts = countSeries(probes, hops, captured);
    counted = round === 1 ? counts : addSeries(counted, counts);
    if (counts.every(isWholeSeries)) break;
  }
  return counted;
}

const COUNTED_PROBES: readonly LossCount["probe"][] = ["ping", "echo"];

type Counts = Partial<Record<HopName, number>>;

function count(hops: readonly HopName[], sent: number): Counts {
  const counts: Counts = {};
  // A frame may be captured twice at one link.
  for (const hop of hops) counts[hop] = Math.min(sent, (counts[hop] ?? 0) + 1);
  return counts;
}

function countSeries(
  probes: readonly Probe[],
  hops: readonly (HopName | undefined)[],
  { frames }: Pick<ReceivedFrames, "frames">,
): readonly LossCount[] {
  return COUNTED_PROBES.flatMap((probe) => {
    const own = probes.filter((each) => each.probe === (probe satisfies ProbeName));
    if (own.length === 0) return [];
    const listHops = (test: "probeTests" | "answerTests"): readonly HopName[] =>
      own.flatMap(({ frame: sentFrame }) => {
        const found = frames.filter(({ frame }) => matchesFrame(frame, sentFrame[test]));
        return [...new Set(found.flatMap(({ port }) => hops[port] ?? []))];
      });
    const sent = own.length;
    const [probeCounts, replyCounts] = [
      count(listHops("probeTests"), sent),
      count(listHops("answerTests"), sent),
    ];
    return [{ probe, sent, probes: probeCounts, replies: replyCounts }];
  });
}

/** Whether no reply was lost: each link that captured replies captured one to every probe, and one link captured some. */
export function isWholeSeries({ sent, replies: answered }: LossCount): boolean {
  return (
    Math.max(0, ...Object.values(answered)) === sent &&
    Object.values(answered).every((each) => each === sent)
  );
}

function addCounts(a: Counts, b: Counts): Counts {
  const hops = [...Object.keys(a), ...Object.keys(b)] as readonly HopName[];
  return Object.fromEntries(hops.map((hop) => [hop, (a[hop] ?? 0) + (b[hop] ?? 0)]));
}

function addSeries(
  first: readonly LossCount[],
  second: readonly LossCount[],
): readonly LossCount[] {
  return first.map((each) => {
    const more = second.find(({ probe }) => probe === each.probe);
    if (more === undefined) return each;
    return {
      probe: each.probe,
      sent: each.sent + more.sent,
      probes: addCounts(each.probes, more.probes),
      replies: addCounts(each.replies, more.replies),
    };
  });
}

const FORWARDED_ATTEMPTS_MAX = 2;
/** Offset of the IPv4 source address in a frame. */
const SOURCE_AT = 26;

interface ForwardedPingEnds {
  readonly pod: NetnsHandle;
  readonly node: NetnsHandle;
  readonly nic: string;
  readonly mac: string;
  readonly source: string;
  readonly via: string;
  readonly newId: () => number;
}

function hasSource(frame: Uint8Array, address: string): boolean {
  const ip = parseIp(address);
  if (ip === undefined) return false;
  return Buffer.from(addressBytes(ip)).equals(
    Buffer.from(frame.subarray(SOURCE_AT, SOURCE_AT + 4)),
  );
}

/** Pings the node's gateway as the guest, through the node, and as the node for comparison; at most twice. */
export async function pingThroughNode(
  netlink: Netlink,
  { pod, node, nic, mac, source, via, newId }: ForwardedPingEnds,
  route: NodeRoute,
): Promise<ForwardedPing> {
  const { link, gateway } = route;
  const [POD, NODE] = [0, 1];
  const guests = buildPing({ from: mac, to: via, id: newId() }, [source, gateway]);
  const own = buildPing({ from: route.mac, to: route.gatewayMac, id: newId() }, [
    route.address,
    gateway,
  ]);
  let found: ForwardedPing = { link, gateway, sentAs: "no", hasReply: false, repliesToNode: false };
  for (let round = 1; round <= FORWARDED_ATTEMPTS_MAX && !found.hasReply; round += 1) {
    const { frames } = await netlink.exchangeFrames({
      ports: [
        { netns: pod, link: nic },
        { netns: node, link },
      ],
      sends: [
        { port: POD, frame: guests.frame },
        { port: NODE, frame: own.frame },
      ],
      tests: [guests.probeTests, guests.answerTests, own.answerTests],
      ms: EXCHANGE_MS,
    });
    const atNode = frames.filter(({ port }) => port === NODE).map(({ frame }) => frame);
    const leaving = atNode.find((frame) => matchesFrame(frame, guests.probeTests));
    const sentAs =
      leaving === undefined ? found.sentAs : hasSource(leaving, source) ? "asGuest" : "asNode";
    const isAnswered = frames.some(
      ({ port, frame }) => port === POD && matchesFrame(frame, guests.answerTests),
    );
    const repliesToNode =
      found.repliesToNode || atNode.some((frame) => matchesFrame(frame, own.answerTests));
    found = { link, gateway, sentAs, hasReply: isAnswered, repliesToNode };
  }
  return found;
}
