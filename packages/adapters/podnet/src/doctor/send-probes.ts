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
import { toAddressBytes, printMac } from "../netlink/rtnetlink.ts";
import { buildArpRequestTests, isArp, matchesFrame, buildPing, readArpTarget } from "./frames.ts";
import type { Probe } from "./probes.ts";
import type { NodeRoute } from "./surroundings.ts";

/** Duration of one exchange of frames, in milliseconds. */
export const EXCHANGE_MS = 200;
/**
 * Number of rounds after which an unanswered probe counts as lost. A link that loses half of the frames usually passes
 * at least one of three probes. A probe with fewer attempts counts as lost after its last attempt.
 */
const LOST_ROUNDS = 3;
/** Duration of a series of pings in milliseconds, and maximum number of series. */
export const [SERIES_MS, SERIES_MAX] = [300, 2];

export interface DoctorSources extends StateSources {
  readonly clock: Pick<Clock, "monotonicMs">;
}

type ProbeSources = Pick<DoctorSources, "netlink" | "clock">;

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
  rounds: number;
  maxRounds: number;
}

/** Maximum number of recorded addresses. Without a limit, a guest could fill the memory by requests for many addresses. */
const REQUESTED_ADDRESSES_MAX = 16;

/** ARP requests of the guest, as captured at its tap during probes. */
export interface GuestRequests {
  readonly mac: string;
  readonly addresses: Set<string>;
}

function recordRequests(
  { mac, addresses }: GuestRequests,
  capturePoints: readonly CapturePoint[],
  { frames }: Pick<ReceivedFrames, "frames">,
): void {
  const tests = buildArpRequestTests(mac);
  for (const { port, isOutgoing, frame } of frames) {
    const isFromGuest = capturePoints[port]?.hop === "tap" && !isOutgoing;
    const hasRoom = addresses.size < REQUESTED_ADDRESSES_MAX;
    if (isFromGuest && hasRoom && matchesFrame(frame, tests)) addresses.add(readArpTarget(frame));
  }
}

interface ProbePlan {
  readonly probes: readonly Probe[];
  readonly untilMs: number;
  /** Receives the ARP requests that the guest sends during the probes. Unset if they are not recorded. */
  readonly requests?: GuestRequests;
}

/** Captured frames of each probe, by probe name. Probes with the same name share an entry. */
type Trails = Map<ProbeName, ProbeTrail>;

function getTrail(trails: Trails, probe: ProbeName): ProbeTrail {
  const hops = { probeSeenAt: new Set<HopName>(), replySeenAt: new Set<HopName>() };
  const emptyTrail = { ...hops, repliedFrom: new Set<string>(), repliedTo: new Set<string>() };
  const trail = trails.get(probe) ?? { ...emptyTrail, refusal: undefined, rounds: 0, maxRounds: 0 };
  trails.set(probe, trail);
  return trail;
}

/** Offset of the sender's MAC in an ARP frame, in bytes. Source: RFC 826, ar$sha */
const ARP_SENDER_AT = 22;

/** Returns the answering MAC. For ARP, reads it from the answer's content, because a virtual router may send from another MAC. */
function readAnsweringMac(probe: ProbeName, frame: Uint8Array): string {
  const macOffset = probe === "outward" && isArp(frame) ? ARP_SENDER_AT : 6;
  return printMac(frame.subarray(macOffset, macOffset + 6));
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
    for (const { probe, frame: probeFrame } of probes) {
      const trail = getTrail(trails, probe);
      if (matchesFrame(frame, probeFrame.probeTests)) trail.probeSeenAt.add(hop);
      if (!matchesFrame(frame, probeFrame.answerTests)) continue;
      trail.replySeenAt.add(hop);
      trail.repliedFrom.add(readAnsweringMac(probe, frame));
      trail.repliedTo.add(printMac(frame.subarray(0, 6)));
    }
  }
  for (const probe of new Set(probes.map((sent) => sent.probe)))
    getTrail(trails, probe).rounds += 1;
  for (const [index, { probe, attempts }] of probes.entries()) {
    const errno = captured.unsent[index] ?? 0;
    const trail = getTrail(trails, probe);
    trail.maxRounds = Math.max(trail.maxRounds, attempts);
    if (errno !== 0) trail.refusal = describeErrno(errno);
  }
}

/** Converts the captures of a probe. Omits an unanswered probe that was sent in too few rounds, because a few lost frames prove nothing. */
function toTrace(probe: ProbeName, trail: ProbeTrail): readonly FrameTrace[] {
  const { probeSeenAt, replySeenAt, repliedFrom, repliedTo, refusal, rounds, maxRounds } = trail;
  if (replySeenAt.size === 0 && rounds < Math.min(LOST_ROUNDS, maxRounds)) return [];
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
  { netlink, clock }: ProbeSources,
  capturePoints: readonly CapturePoint[],
  { probes, untilMs, requests }: ProbePlan,
): Promise<readonly FrameTrace[]> {
  const trails: Trails = new Map();
  for (let round = 1; clock.monotonicMs() + EXCHANGE_MS <= untilMs; round += 1) {
    // Repeats a probe until its reply returns to the sending link, because a lossy link may lose a reply on the way.
    const unansweredProbes = probes.filter(
      ({ probe, from, attempts }) =>
        round <= attempts && !getTrail(trails, probe).replySeenAt.has(from),
    );
    if (unansweredProbes.length === 0) break;
    const sends = unansweredProbes.map(({ from, frame: probeFrame }) => {
      const port = capturePoints.findIndex(({ hop }) => hop === from);
      const { frame, checksum } = probeFrame;
      return { port, frame, ...(checksum !== undefined && { checksum }) };
    });
    const requestTests = requests === undefined ? [] : [buildArpRequestTests(requests.mac)];
    const probeTests = probes.flatMap(({ frame }) => [frame.answerTests, frame.probeTests]);
    const tests = [...requestTests, ...probeTests];
    const captured = await netlink.exchangeFrames({
      ports: capturePoints,
      sends,
      tests,
      ms: EXCHANGE_MS,
    });
    recordFrames(trails, { probes: unansweredProbes, capturePoints }, captured);
    if (requests !== undefined) recordRequests(requests, capturePoints, captured);
  }
  return [...trails].flatMap(([probe, trail]) => toTrace(probe, trail));
}

const COUNTED_PROBES: readonly LossCount["probe"][] = ["ping", "echo"];

/** Sends a series of pings, and a second series if replies to the first were lost. */
export async function countLosses(
  { netlink, clock }: ProbeSources,
  capturePoints: readonly CapturePoint[],
  series: { readonly probes: () => readonly Probe[]; readonly untilMs: number },
): Promise<readonly LossCount[]> {
  let losses: readonly LossCount[] = [];
  for (let round = 1; round <= SERIES_MAX; round += 1) {
    const probes = series.probes();
    if (probes.length === 0 || clock.monotonicMs() + SERIES_MS > series.untilMs) break;
    const captured = await netlink.exchangeFrames({
      ports: capturePoints,
      sends: probes.map(({ from, frame: { frame } }) => {
        return { port: capturePoints.findIndex(({ hop }) => hop === from), frame };
      }),
      tests: probes
        .filter(({ probe }) => COUNTED_PROBES.some((counted) => counted === probe))
        .flatMap(({ frame: { answerTests, probeTests } }) => [answerTests, probeTests]),
      ms: SERIES_MS,
    });
    const hops = capturePoints.map(({ hop }) => hop);
    const counts = countSeries(probes, hops, captured);
    losses = round === 1 ? counts : addSeries(losses, counts);
    if (counts.every(isWholeSeries)) break;
  }
  return losses;
}

type Counts = Partial<Record<HopName, number>>;

function countByHop(hops: readonly HopName[], sentCount: number): Counts {
  const counts: Counts = {};
  // Counts at most the number of sent probes, because a link may capture the same frame twice.
  for (const hop of hops) counts[hop] = Math.min(sentCount, (counts[hop] ?? 0) + 1);
  return counts;
}

function countSeries(
  probes: readonly Probe[],
  hops: readonly (HopName | undefined)[],
  { frames }: Pick<ReceivedFrames, "frames">,
): readonly LossCount[] {
  return COUNTED_PROBES.flatMap((probe) => {
    const seriesProbes = probes.filter(
      (candidate) => candidate.probe === (probe satisfies ProbeName),
    );
    if (seriesProbes.length === 0) return [];
    const listHops = (test: "probeTests" | "answerTests"): readonly HopName[] =>
      seriesProbes.flatMap(({ frame: sentFrame }) => {
        const matches = frames.filter(({ frame }) => matchesFrame(frame, sentFrame[test]));
        return [...new Set(matches.flatMap(({ port }) => hops[port] ?? []))];
      });
    const sentCount = seriesProbes.length;
    const [probeCounts, replyCounts] = [
      countByHop(listHops("probeTests"), sentCount),
      countByHop(listHops("answerTests"), sentCount),
    ];
    return [{ probe, sent: sentCount, probes: probeCounts, replies: replyCounts }];
  });
}

/** Checks that no reply was lost: each link that captured any reply must have captured one reply for each probe. */
export function isWholeSeries({ sent, replies }: LossCount): boolean {
  return (
    Math.max(0, ...Object.values(replies)) === sent &&
    Object.values(replies).every((count) => count === sent)
  );
}

function isSilentSeries({ replies }: LossCount): boolean {
  return Object.values(replies).every((count) => count === 0);
}

function addCounts(a: Counts, b: Counts): Counts {
  const hops = [...Object.keys(a), ...Object.keys(b)] as readonly HopName[];
  return Object.fromEntries(hops.map((hop) => [hop, (a[hop] ?? 0) + (b[hop] ?? 0)]));
}

function addSeries(
  firstLosses: readonly LossCount[],
  secondLosses: readonly LossCount[],
): readonly LossCount[] {
  return firstLosses.map((loss) => {
    const secondLoss = secondLosses.find(({ probe }) => probe === loss.probe);
    if (secondLoss === undefined) return loss;
    // If one series has no replies, only the other series counts, because a busy host may answer nothing for a moment.
    if (isSilentSeries(loss)) return secondLoss;
    if (isSilentSeries(secondLoss)) return loss;
    return {
      probe: loss.probe,
      sent: loss.sent + secondLoss.sent,
      probes: addCounts(loss.probes, secondLoss.probes),
      replies: addCounts(loss.replies, secondLoss.replies),
    };
  });
}

const FORWARDED_ATTEMPTS_MAX = 2;
/** Offset of the IPv4 source address in a frame, in bytes. */
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

function hasSourceAddress(frame: Uint8Array, address: string): boolean {
  const ip = parseIp(address);
  if (ip === undefined) return false;
  return Buffer.from(toAddressBytes(ip)).equals(
    Buffer.from(frame.subarray(SOURCE_AT, SOURCE_AT + 4)),
  );
}

/** Pings the node's gateway twice: from the pod through the node, and from the node itself for comparison. Retries once. */
export async function pingThroughNode(
  netlink: Netlink,
  { pod, node, nic, mac, source, via, newId }: ForwardedPingEnds,
  route: NodeRoute,
): Promise<ForwardedPing> {
  const { link, gateway } = route;
  const [POD, NODE] = [0, 1];
  const guestPing = buildPing({ from: mac, to: via, id: newId() }, [source, gateway]);
  const nodePing = buildPing({ from: route.mac, to: route.gatewayMac, id: newId() }, [
    route.address,
    gateway,
  ]);
  let result: ForwardedPing = {
    link,
    gateway,
    sentAs: "no",
    hasReply: false,
    repliesToNode: false,
  };
  for (let round = 1; round <= FORWARDED_ATTEMPTS_MAX && !result.hasReply; round += 1) {
    const { frames } = await netlink.exchangeFrames({
      ports: [
        { netns: pod, link: nic },
        { netns: node, link },
      ],
      sends: [
        { port: POD, frame: guestPing.frame },
        { port: NODE, frame: nodePing.frame },
      ],
      tests: [guestPing.probeTests, guestPing.answerTests, nodePing.answerTests],
      ms: EXCHANGE_MS,
    });
    const atNode = frames.filter(({ port }) => port === NODE).map(({ frame }) => frame);
    const forwardedFrame = atNode.find((frame) => matchesFrame(frame, guestPing.probeTests));
    const sentAs =
      forwardedFrame === undefined
        ? result.sentAs
        : hasSourceAddress(forwardedFrame, source)
          ? "asGuest"
          : "asNode";
    const isAnswered = frames.some(
      ({ port, frame }) => port === POD && matchesFrame(frame, guestPing.answerTests),
    );
    const repliesToNode =
      result.repliesToNode || atNode.some((frame) => matchesFrame(frame, nodePing.answerTests));
    result = { link, gateway, sentAs, hasReply: isAnswered, repliesToNode };
  }
  return result;
}
