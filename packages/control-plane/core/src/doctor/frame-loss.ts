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

/** A link on a path, and the hops that may have lost a frame that no later link saw, the most likely first. */
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
/** Stages of a probe that starts at the pod's bridge, because the node's end of the pod NIC cannot be used. */
const TO_GUEST_IN_POD_STAGES: readonly Stage[] = [stage("tap", "guest")];
const FROM_GUEST_IN_POD_STAGES: readonly Stage[] = [
  stage("tap", "tap", "podBridge"),
  stage("podBridge"),
];
/** Stages of replies to the gateway, which leave the pod even if the probe started in it. */
const FROM_GUEST_TO_GATEWAY_STAGES: readonly Stage[] = [
  stage("tap", "tap", "podBridge", "podNic"),
  stage("podNic"),
];

/** Unicast probes. Capturing on a bridge shows them only if the bridge has the target MAC itself. */
const UNICAST_PROBES: readonly ProbeName[] = ["echo", "echoLarge", "echoPartial"];
const PROBES_TO_GUEST: readonly ProbeName[] = ["inward", "inwardLarge", "ping", "connect"];

function leavesNode({ links, target }: ObservedPath, probe: ProbeName): boolean {
  return probe === "own" || probe === "dhcp" ? links.uplinks.length > 0 : target?.at === "beyond";
}

function isVisibleOnBridge({ links, target }: ObservedPath, probe: ProbeName): boolean {
  if (links.nodeBridge === undefined) return false;
  return !UNICAST_PROBES.includes(probe) || target?.at === "bridge";
}

function peerStage(observed: ObservedPath, probe: ProbeName): Stage {
  return observed.links.nodeBridge === undefined || isVisibleOnBridge(observed, probe)
    ? stage("nodePeer", "nodePeer", "nodeBridge")
    : stage("nodePeer", "nodeBridge", "nodePeer", "uplink");
}

function outwardStages(observed: ObservedPath, probe: ProbeName): readonly Stage[] {
  const hasPeer = observed.links.onNode === "peer";
  const stages = [
    stage("podNic", hasPeer ? "nodePeer" : "uplink"),
    ...(hasPeer ? [peerStage(observed, probe)] : []),
    ...(isVisibleOnBridge(observed, probe) ? [stage("nodeBridge", "nodeBridge", "uplink")] : []),
    ...(leavesNode(observed, probe) ? [stage("uplink")] : []),
  ];
  // Only the target can have lost a frame that reached the last link.
  return stages.map((each, at) => (at === stages.length - 1 ? stage(each.hop, "gateway") : each));
}

function returnStages({ links, target, isBridged }: ObservedPath): readonly Stage[] {
  return [
    ...(target?.at === "beyond" ? [stage("uplink", "nodeBridge", "uplink", "nodePeer")] : []),
    ...(links.onNode === "peer" ? [stage("nodePeer", "podNic")] : []),
    stage("podNic", "podBridge", "podNic", "tap"),
    ...(isBridged ? [stage("tap")] : []),
  ];
}

/** Links that a probe and its reply pass. `first` is the hop to blame if no link saw the probe. */
interface ProbePath {
  readonly probeStages: readonly Stage[];
  readonly replyStages: readonly Stage[];
  readonly first: HopName;
}

function findProbePath(observed: ObservedPath, probe: ProbeName): ProbePath {
  if (!PROBES_TO_GUEST.includes(probe)) {
    return {
      probeStages: outwardStages(observed, probe),
      replyStages: returnStages(observed),
      first: "podNic",
    };
  }
  if (observed.isBridged && observed.links.onNode === "peer") {
    return {
      probeStages: TO_GUEST_STAGES,
      replyStages: FROM_GUEST_STAGES,
      first: "nodePeer",
    };
  }
  const isToGateway = observed.isBridged && (probe === "ping" || probe === "connect");
  const replyStages = isToGateway ? FROM_GUEST_TO_GATEWAY_STAGES : FROM_GUEST_IN_POD_STAGES;
  return { probeStages: TO_GUEST_IN_POD_STAGES, replyStages, first: "podBridge" };
}

function findFilter(hop: HopName, { filters = [], links }: ObservedPath): FrameFilter | undefined {
  const { tap, podBridge, podNic, nodePeer, nodeBridge, uplinks } = links;
  const ofHop: Partial<Record<HopName, readonly (string | undefined)[]>> = {
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
      (link === undefined ? isBridge : ofHop[hop]?.includes(link) === true),
  );
}

function hasCause(hop: HopName, observed: ObservedPath): boolean {
  const position = { podBridge: "pod", nodeBridge: "node" }[hop as string];
  const leavesPath = (observed.entries ?? []).some(({ at }) => at === position);
  return leavesPath || findFilter(hop, observed) !== undefined;
}

/** Whether the pod NIC sent none of the `outward` probes. It then loses the guest's frames too. */
function losesAllOutgoing({ traces }: ObservedPath): boolean {
  const outward = traces.find(({ probe }) => probe === "outward");
  return outward?.probeSeenAt.length === 0 && outward.replySeenAt.length === 0;
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
  first: HopName | undefined,
): readonly HopName[] | undefined {
  const last = stages.findLastIndex(({ hop }) => observed.includes(hop));
  if (last === stages.length - 1) return undefined;
  return stages[last]?.blamed ?? (first === undefined ? [] : [first]);
}

export function findProbeLoss(trace: FrameTrace, observed: ObservedPath): HopName | undefined {
  const { probeStages, first } = findProbePath(observed, trace.probe);
  return chooseBlamed(findBlamed(probeStages, trace.probeSeenAt, first) ?? [], observed);
}

export function findFrameLoss(trace: FrameTrace, observed: ObservedPath): HopName | undefined {
  const { probeStages, replyStages } = findProbePath(observed, trace.probe);
  const lastBlamed = probeStages.at(-1)?.blamed[0];
  return trace.replySeenAt.length === 0
    ? (findProbeLoss(trace, observed) ?? lastBlamed)
    : chooseBlamed(findBlamed(replyStages, trace.replySeenAt, lastBlamed) ?? [], observed);
}

// Smallest count and share of lost frames in a series that is a fault. Smaller losses may be chance or load.
const LOST_MIN = 2;
const LOST_SHARE_MIN = 0.15;

/** Returns the hop that lost most frames of a series, or undefined if the loss is below the limits. */
function findPartialLoss(
  { probe, sent, probes, replies }: LossCount,
  observed: ObservedPath,
): { readonly hop: HopName; readonly lost: number } | undefined {
  const { probeStages, replyStages, first } = findProbePath(observed, probe);
  const counts = [
    { count: sent, blamed: [first] },
    ...probeStages.map(({ hop, blamed }) => ({ count: probes[hop] ?? 0, blamed })),
    ...replyStages.map(({ hop, blamed }) => ({ count: replies[hop] ?? 0, blamed })),
  ];
  const losses = counts.slice(1).map(({ count }, at) => {
    const before = counts[at];
    return { lost: (before?.count ?? 0) - count, remaining: count, blamed: before?.blamed ?? [] };
  });
  const [most] = losses.toSorted((a, b) => b.lost - a.lost);
  // The traces of the single probes show where all frames are lost.
  if (most === undefined || most.remaining <= 0) return undefined;
  if (most.lost < LOST_MIN || most.lost < sent * LOST_SHARE_MIN) return undefined;
  const hop = chooseBlamed(most.blamed, observed);
  return hop === undefined ? undefined : { hop, lost: most.lost };
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
};
/** For a special probe: the plain probe to compare with, and the reason if only the plain one is answered. */
const PLAIN_PROBES: Partial<Readonly<Record<ProbeName, readonly [ProbeName, DoctorReason]>>> = {
  inwardLarge: ["inward", "MtuSmaller"],
  outwardLarge: ["outward", "MtuSmaller"],
  echoLarge: ["echo", "MtuSmaller"],
  echoPartial: ["echo", "ChecksumUnfinished"],
};
/** Probes that healthy hosts may leave unanswered, so that a missing reply is no fault. */
const ONE_WAY_PROBES: readonly ProbeName[] = ["own", "dhcp", "outwardLarge"];
const HOPS_IN_ORDER: readonly HopName[] = [
  ...(["guest", "tap", "podBridge", "podNic"] as const),
  ...(["nodePeer", "nodeBridge", "uplink", "gateway"] as const),
];

/** Hops that were found dead before the probe frames are judged, with their reasons. */
export type Faults = ReadonlyMap<HopName, string | undefined>;

export interface JudgedFacts extends PathFacts {
  readonly faults?: Faults;
}

function blames(trace: FrameTrace, observed: ObservedPath, hop: HopName): boolean {
  const isOneWay = ONE_WAY_PROBES.includes(trace.probe);
  const lost = isOneWay ? findProbeLoss(trace, observed) : findFrameLoss(trace, observed);
  return lost === hop;
}

/** Whether this hop or a neighboring one is already dead for a cause that loses such frames. `isOfSize` selects the MTU as cause. */
function isExplained(faults: Faults, hop: HopName, isOfSize: boolean): boolean {
  const at = HOPS_IN_ORDER.indexOf(hop);
  return HOPS_IN_ORDER.slice(Math.max(0, at - 1), at + 2).some(
    (near) => faults.has(near) && (faults.get(near) === "MtuSmaller") === isOfSize,
  );
}

/** Returns the reason for the loss. Undefined for a special probe whose plain probe is unanswered too. */
function findLossReason({ probe }: FrameTrace, { traces }: ObservedPath): DoctorReason | undefined {
  const [plain, reason] = PLAIN_PROBES[probe] ?? [];
  if (plain === undefined) return "FramesLost";
  const known = traces.find((trace) => trace.probe === plain);
  return known !== undefined && known.replySeenAt.length > 0 ? reason : undefined;
}

export function findExternalMac({ device, observed }: PathFacts): string | undefined {
  return observed?.isBridged === true ? device?.mac : observed?.links.podNic?.mac;
}

/** Whether the replies are addressed to another MAC, so that the host that sends them is at fault and not a hop. */
export function isMisdirected(facts: PathFacts, { probe, repliedTo }: FrameTrace): boolean {
  const mac = findExternalMac(facts);
  return (
    probe.startsWith("echo") &&
    mac !== undefined &&
    repliedTo.length > 0 &&
    !repliedTo.includes(mac)
  );
}

function isLossy(observed: ObservedPath): boolean {
  return (observed.losses ?? []).some((count) => findPartialLoss(count, observed) !== undefined);
}

function describeFilter(hop: HopName, observed: ObservedPath): string {
  const filter = findFilter(hop, observed);
  if (filter === undefined) return "";
  const position = filter.at === "pod" ? "in the pod's network namespace" : "on the node";
  return `\`${filter.command}\` ${position} shows what may drop them; else `;
}

export function judgePartialLoss(
  { observed }: PathFacts,
  hop: HopName,
  name?: string,
): Verdict | undefined {
  for (const count of observed?.losses ?? []) {
    const loss = observed === undefined ? undefined : findPartialLoss(count, observed);
    if (observed === undefined || loss?.hop !== hop) continue;
    const why = `${String(loss.lost)} of ${String(count.sent)} ${PROBE_LABELS[count.probe]} were lost here`;
    return withFix(describeFilter(hop, observed), dead("LossyLink", why, name));
  }
  return undefined;
}

/** Probes that are repeated so often that one passes even a link that loses half of all frames. */
const REPEATED_PROBES: readonly ProbeName[] = ["inward", "outward"];

function provesLoss(trace: FrameTrace, facts: PathFacts, observed: ObservedPath): boolean {
  if (isMisdirected(facts, trace)) return false;
  return REPEATED_PROBES.includes(trace.probe) || !isLossy(observed);
}

export function judgeFrameLoss(
  facts: JudgedFacts,
  hop: HopName,
  name?: string,
): Verdict | undefined {
  const { observed, faults } = facts;
  if (observed === undefined || faults === undefined) return undefined;
  const lossy = judgePartialLoss(facts, hop, name);
  if (lossy !== undefined) return lossy;
  const [lost] = observed.traces.flatMap((trace) => {
    const reason = findLossReason(trace, observed);
    const isReported = reason !== undefined && provesLoss(trace, facts, observed);
    return isReported && blames(trace, observed, hop) ? [{ ...trace, reason }] : [];
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
  const wanted = device?.mtu ?? observed?.links.tap?.mtu;
  if (wanted === undefined || mtu >= wanted) return undefined;
  const why = `its MTU is ${String(mtu)}, and the guest's ${String(wanted)}`;
  return dead("MtuSmaller", why, name);
}
