// SPDX-License-Identifier: Apache-2.0
import type {
  FrameTrace,
  ProbeName,
  ObservedPath,
  PathFacts,
  PathLink,
  FrameFilter,
  LossCount,
} from "./facts.ts";
import type { DoctorReason } from "./reasons.ts";
import { type HopName, dead, withFix, type Verdict } from "./report.ts";

/** Link on a path. If a frame was last observed on this link, a hop in `blamed` lost the frame. `blamed` starts with the likeliest hop. */
interface Stage {
  readonly hop: HopName;
  readonly blamed: readonly HopName[];
}

function stage(hop: HopName, ...blamed: readonly HopName[]): Stage {
  return { hop, blamed: blamed.length === 0 ? [hop] : blamed };
}

const TO_GUEST_STAGES: readonly Stage[] = [
  stage("nodePeer", "podNic"),
  stage("podNic", "podBridge", "podNic", "tap"),
  stage("tap", "guest"),
];
const FROM_GUEST_STAGES: readonly Stage[] = [
  stage("tap", "tap", "podBridge", "podNic"),
  stage("podNic", "nodePeer"),
  stage("nodePeer", "nodeBridge"),
];
/** Stages of probes from the pod's bridge to the guest. They are sent with masquerade, or if the pod NIC's peer cannot be observed. */
const TO_GUEST_IN_POD_STAGES: readonly Stage[] = [stage("tap", "guest")];
const FROM_GUEST_IN_POD_STAGES: readonly Stage[] = [
  stage("tap", "tap", "podBridge"),
  stage("podBridge"),
];
/** Stages of the guest's replies to its gateway, which leave the pod even if the probe was sent from the pod's bridge. */
const FROM_GUEST_TO_GATEWAY_STAGES: readonly Stage[] = [
  stage("tap", "tap", "podBridge", "podNic"),
  stage("podNic"),
];

/** Unicast probes. A capture on the node's bridge shows frames to the bridge's own MAC, but no frames that the bridge forwards. */
const UNICAST_PROBES: readonly ProbeName[] = ["echo", "echoLarge", "echoPartial"];
const PROBES_TO_GUEST: readonly ProbeName[] = ["inward", "inwardLarge", "ping", "connect"];

function leavesNode({ links, target }: ObservedPath, probe: ProbeName): boolean {
  return probe === "own" || probe === "dhcp" ? links.uplinks.length > 0 : target?.at === "beyond";
}

function isVisibleOnBridge({ links, target }: ObservedPath, probe: ProbeName): boolean {
  if (links.nodeBridge === undefined) return false;
  return !UNICAST_PROBES.includes(probe) || target?.at === "bridge";
}

function buildPeerStages(observed: ObservedPath, probe: ProbeName): Stage {
  return observed.links.nodeBridge === undefined || isVisibleOnBridge(observed, probe)
    ? stage("nodePeer", "nodePeer", "nodeBridge")
    : stage("nodePeer", "nodeBridge", "nodePeer", "uplink");
}

function listOutwardStages(observed: ObservedPath, probe: ProbeName): readonly Stage[] {
  const hasPeer = observed.links.onNode === "peer";
  const stages = [
    stage("podNic", hasPeer ? "nodePeer" : "uplink"),
    ...(hasPeer ? [buildPeerStages(observed, probe)] : []),
    ...(isVisibleOnBridge(observed, probe) ? [stage("nodeBridge", "nodeBridge", "uplink")] : []),
    ...(leavesNode(observed, probe) ? [stage("uplink")] : []),
  ];
  // A frame that reached the last link of the path but got no reply was lost by the target.
  return stages.map((currentStage, position) =>
    position === stages.length - 1 ? stage(currentStage.hop, "gateway") : currentStage,
  );
}

function listReturnStages({ links, target, isBridged }: ObservedPath): readonly Stage[] {
  return [
    ...(target?.at === "beyond" ? [stage("uplink", "nodeBridge", "uplink", "nodePeer")] : []),
    ...(links.onNode === "peer" ? [stage("nodePeer", "podNic")] : []),
    stage("podNic", "podBridge", "podNic", "tap"),
    ...(isBridged ? [stage("tap")] : []),
  ];
}

/** Links that a probe and its reply pass. If no link observed the probe, a hop in `first` lost it; `first` begins with the likeliest. */
interface ProbePath {
  readonly probeStages: readonly Stage[];
  readonly replyStages: readonly Stage[];
  readonly first: readonly HopName[];
}

function findProbePath(observed: ObservedPath, probe: ProbeName): ProbePath {
  if (!PROBES_TO_GUEST.includes(probe)) {
    return {
      probeStages: listOutwardStages(observed, probe),
      replyStages: listReturnStages(observed),
      first: ["podNic"],
    };
  }
  if (observed.isBridged && observed.links.onNode === "peer") {
    return {
      probeStages: TO_GUEST_STAGES,
      replyStages: FROM_GUEST_STAGES,
      first: ["nodePeer"],
    };
  }
  const isToGateway = observed.isBridged && (probe === "ping" || probe === "connect");
  const replyStages = isToGateway ? FROM_GUEST_TO_GATEWAY_STAGES : FROM_GUEST_IN_POD_STAGES;
  return { probeStages: TO_GUEST_IN_POD_STAGES, replyStages, first: ["podBridge", "tap"] };
}

function findFilter(hop: HopName, { filters = [], links }: ObservedPath): FrameFilter | undefined {
  const { tap, podBridge, podNic, nodePeer, nodeBridge, uplinks } = links;
  const linksByHop: Partial<Record<HopName, readonly (string | undefined)[]>> = {
    tap: [tap?.name],
    podBridge: [podBridge?.name],
    podNic: [podNic?.name],
    nodePeer: [nodePeer?.name],
    nodeBridge: [nodeBridge?.name],
    uplink: uplinks.map(({ name }) => name),
  };
  const isOnNode = ["nodePeer", "nodeBridge", "uplink"].includes(hop);
  const isBridge = hop === "podBridge" || hop === "nodeBridge";
  return filters.find(
    ({ at, link }) =>
      (at === "node") === isOnNode &&
      (link === undefined ? isBridge : linksByHop[hop]?.includes(link) === true),
  );
}

function hasCause(hop: HopName, observed: ObservedPath): boolean {
  const position = { podBridge: "pod", nodeBridge: "node" }[hop as string];
  const leavesPath = (observed.entries ?? []).some(({ at }) => at === position);
  return leavesPath || findFilter(hop, observed) !== undefined;
}

/** Checks whether no link captured the `outward` probe or its reply. If so, the pod NIC probably drops the guest's frames. */
function losesAllOutgoing({ traces }: ObservedPath): boolean {
  const outwardTrace = traces.find(({ probe }) => probe === "outward");
  return outwardTrace?.probeSeenAt.length === 0 && outwardTrace.replySeenAt.length === 0;
}

function chooseBlamed(blamed: readonly HopName[], observed: ObservedPath): HopName | undefined {
  if (
    blamed.length > 1 &&
    blamed.includes("podNic") &&
    blamed[0] === "tap" &&
    losesAllOutgoing(observed)
  ) {
    return "podNic";
  }
  return blamed.find((hop) => hasCause(hop, observed)) ?? blamed[0];
}

function findBlamed(
  stages: readonly Stage[],
  observed: readonly HopName[],
  firstBlamed: readonly HopName[],
): readonly HopName[] | undefined {
  const lastObserved = stages.findLastIndex(({ hop }) => observed.includes(hop));
  if (lastObserved === stages.length - 1) return undefined;
  return stages[lastObserved]?.blamed ?? firstBlamed;
}

export function findProbeLoss(trace: FrameTrace, observed: ObservedPath): HopName | undefined {
  const { probeStages, first } = findProbePath(observed, trace.probe);
  return chooseBlamed(findBlamed(probeStages, trace.probeSeenAt, first) ?? [], observed);
}

export function findFrameLoss(trace: FrameTrace, observed: ObservedPath): HopName | undefined {
  const { probeStages, replyStages } = findProbePath(observed, trace.probe);
  const lastBlamed = probeStages.at(-1)?.blamed.slice(0, 1) ?? [];
  return trace.replySeenAt.length === 0
    ? (findProbeLoss(trace, observed) ?? lastBlamed[0])
    : chooseBlamed(findBlamed(replyStages, trace.replySeenAt, lastBlamed) ?? [], observed);
}

// A loss is a fault if at least LOST_MIN frames and LOST_SHARE_MIN of all frames are lost. Smaller losses may result from load.
const LOST_MIN = 2;
const LOST_SHARE_MIN = 0.15;

type Direction = "toward the guest" | "from the guest" | "or their answers";

/**
 * Returns the direction of the frames that were lost at a step. A step leads from one link of the path to the next. The step with the
 * number `probeSteps` leads from the last link of the probes to the first link of the replies, so probes or replies may be lost there.
 */
function findDirection(probe: LossCount["probe"], step: number, probeSteps: number): Direction {
  if (step === probeSteps) return "or their answers";
  const isProbe = step < probeSteps;
  return isProbe === (probe === "ping") ? "toward the guest" : "from the guest";
}

interface PartialLoss {
  readonly hop: HopName;
  readonly lost: number;
  readonly direction: Direction;
}

/** Returns the hop that lost the most frames of a series. Undefined if the loss is below the limits or all frames were lost. */
function findPartialLoss(
  { probe, sent, probes, replies }: LossCount,
  observed: ObservedPath,
): PartialLoss | undefined {
  const { probeStages, replyStages, first } = findProbePath(observed, probe);
  const counts = [
    { count: sent, blamed: first },
    ...probeStages.map(({ hop, blamed }) => ({ count: probes[hop] ?? 0, blamed })),
    ...replyStages.map(({ hop, blamed }) => ({ count: replies[hop] ?? 0, blamed })),
  ];
  const losses = counts.slice(1).map(({ count }, position) => {
    const previousCount = counts[position];
    return {
      lost: (previousCount?.count ?? 0) - count,
      remaining: count,
      direction: findDirection(probe, position, probeStages.length),
      blamed: previousCount?.blamed ?? [],
    };
  });
  const [largestLoss] = losses.toSorted((left, right) => right.lost - left.lost);
  // If all frames of the series were lost, the traces of the single probes already show the loss.
  if (largestLoss === undefined || largestLoss.remaining <= 0) return undefined;
  if (largestLoss.lost < LOST_MIN || largestLoss.lost < sent * LOST_SHARE_MIN) return undefined;
  const hop = chooseBlamed(largestLoss.blamed, observed);
  const { lost, direction } = largestLoss;
  return hop === undefined ? undefined : { hop, lost, direction };
}

const PROBE_LABELS: Readonly<Record<ProbeName, string>> = {
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
  through: "connections to the pod",
  beyond: "pings to the guest from another network",
};
/** Plain probe for each special probe, and the reason to report if only the plain probe gets a reply. */
const PLAIN_PROBES: Partial<Readonly<Record<ProbeName, readonly [ProbeName, DoctorReason]>>> = {
  inwardLarge: ["inward", "MtuSmaller"],
  outwardLarge: ["outward", "MtuSmaller"],
  echoLarge: ["echo", "MtuSmaller"],
  echoPartial: ["echo", "ChecksumUnfinished"],
};
/** Probes that healthy hosts may leave unanswered. */
const ONE_WAY_PROBES: readonly ProbeName[] = ["own", "dhcp", "outwardLarge"];
const HOPS_IN_ORDER: readonly HopName[] = [
  ...(["guest", "tap", "podBridge", "podNic"] as const),
  ...(["nodePeer", "nodeBridge", "uplink", "gateway"] as const),
];

export type Faults = ReadonlyMap<HopName, string | undefined>;

export interface FactsWithFaults extends PathFacts {
  readonly faults?: Faults;
}

function isBlamed(trace: FrameTrace, observed: ObservedPath, hop: HopName): boolean {
  const isOneWay = ONE_WAY_PROBES.includes(trace.probe);
  const lost = isOneWay ? findProbeLoss(trace, observed) : findFrameLoss(trace, observed);
  return lost === hop;
}

/**
 * Returns whether a fault of this hop or a neighboring hop explains the loss. `MtuSmaller` explains losses of large
 * frames (`isOfSize`). Any other fault explains other losses.
 */
function isExplained(faults: Faults, hop: HopName, isOfSize: boolean): boolean {
  const position = HOPS_IN_ORDER.indexOf(hop);
  return HOPS_IN_ORDER.slice(Math.max(0, position - 1), position + 2).some(
    (neighbor) => faults.has(neighbor) && (faults.get(neighbor) === "MtuSmaller") === isOfSize,
  );
}

function findLossReason({ probe }: FrameTrace, { traces }: ObservedPath): DoctorReason | undefined {
  const [plainProbe, reason] = PLAIN_PROBES[probe] ?? [];
  if (plainProbe === undefined) return "FramesLost";
  const plainTrace = traces.find((trace) => trace.probe === plainProbe);
  return plainTrace !== undefined && plainTrace.replySeenAt.length > 0 ? reason : undefined;
}

export function findExternalMac({ device, observed }: PathFacts): string | undefined {
  return observed?.isBridged === true ? device?.mac : observed?.links.podNic?.mac;
}

/** Checks whether replies to a ping have a wrong destination MAC. If so, the replying host is at fault. */
export function isMisdirected(facts: PathFacts, { probe, repliedTo }: FrameTrace): boolean {
  const mac = findExternalMac(facts);
  return (
    probe.startsWith("echo") &&
    mac !== undefined &&
    repliedTo.length > 0 &&
    !repliedTo.includes(mac)
  );
}

export function isLossy(observed: ObservedPath): boolean {
  return (observed.losses ?? []).some((count) => findPartialLoss(count, observed) !== undefined);
}

function describeFilter(hop: HopName, observed: ObservedPath): string {
  const filter = findFilter(hop, observed);
  if (filter === undefined) return "";
  const position = filter.at === "pod" ? "in the pod's network namespace" : "on the node";
  return `\`${filter.command}\` ${position} shows what may drop them; else `;
}

function describeLoss({ probe }: LossCount, { direction }: PartialLoss): string {
  if (direction === "or their answers") return "or their answers were lost here";
  const isProbe = (direction === "toward the guest") === (probe === "ping");
  return isProbe
    ? `were lost here: frames ${direction}`
    : `got no answer, because it was lost here: frames ${direction}`;
}

export function judgePartialLoss(
  { observed }: PathFacts,
  hop: HopName,
  name?: string,
): Verdict | undefined {
  for (const count of observed?.losses ?? []) {
    const loss = observed === undefined ? undefined : findPartialLoss(count, observed);
    if (observed === undefined || loss?.hop !== hop) continue;
    const frames = `${String(loss.lost)} of ${String(count.sent)}`;
    const why = `${frames} ${PROBE_LABELS[count.probe]} ${describeLoss(count, loss)}`;
    return withFix(describeFilter(hop, observed), dead("LossyLink", why, name));
  }
  return undefined;
}

/** Probe frames that are sent often enough for at least one to pass a lossy link. If no reply is seen, a link loses all frames. */
const REPEATED_PROBES: readonly ProbeName[] = ["inward", "outward"];

/** Checks whether a lost probe proves that a link loses all frames. On a lossy path, only a repeated probe without a reply proves it. */
function provesLoss(trace: FrameTrace, facts: PathFacts, observed: ObservedPath): boolean {
  if (isMisdirected(facts, trace)) return false;
  if (!isLossy(observed)) return true;
  return REPEATED_PROBES.includes(trace.probe) && trace.replySeenAt.length === 0;
}

export function judgeFrameLoss(
  facts: FactsWithFaults,
  hop: HopName,
  name?: string,
): Verdict | undefined {
  const { observed, faults } = facts;
  if (observed === undefined || faults === undefined) return undefined;
  const partialLoss = judgePartialLoss(facts, hop, name);
  if (partialLoss !== undefined) return partialLoss;
  const [lost] = observed.traces.flatMap((trace) => {
    const reason = findLossReason(trace, observed);
    const isReported = reason !== undefined && provesLoss(trace, facts, observed);
    return isReported && isBlamed(trace, observed, hop) ? [{ ...trace, reason }] : [];
  });
  if (lost === undefined) return undefined;
  if (isExplained(faults, hop, lost.reason === "MtuSmaller")) return undefined;
  const refusal = lost.refused === undefined ? "" : `; the kernel refuses: ${lost.refused}`;
  const why = `${PROBE_LABELS[lost.probe]} come this far and not further${refusal}`;
  return withFix(describeFilter(hop, observed), dead(lost.reason, why, name));
}

export function judgeMtu(
  { device, observed }: PathFacts,
  { mtu, name }: PathLink,
): Verdict | undefined {
  const requiredMtu = device?.mtu ?? observed?.links.tap?.mtu;
  if (requiredMtu === undefined || mtu >= requiredMtu) return undefined;
  const why = `its MTU is ${String(mtu)}, and the guest's ${String(requiredMtu)}`;
  return dead("MtuSmaller", why, name);
}
