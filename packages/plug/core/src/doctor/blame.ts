// SPDX-License-Identifier: Apache-2.0
// The hop at which frames were lost, from the links at which they were seen. Each direction is judged by itself.
import type { FrameFilter, FrameTrace, LossCount, ProbeName, SeenWay } from "./facts.ts";
import type { HopName } from "./report.ts";

/** A link that frames pass, and the hops that may lose what is seen there and not at the next link; the likeliest first. */
interface Stage {
  readonly hop: HopName;
  readonly blamed: readonly HopName[];
}

function stage(hop: HopName, ...blamed: readonly HopName[]): Stage {
  return { hop, blamed: blamed.length === 0 ? [hop] : blamed };
}

/** Of a frame that leaves a link the next one is to blame, of one that came in the link itself. */
const INWARD: readonly Stage[] = [
  stage("nodePeer", "podNic"),
  stage("podNic", "podBridge", "podNic", "tap"),
  stage("tap", "guest"),
];
const FROM_GUEST: readonly Stage[] = [
  stage("tap", "tap", "podBridge", "podNic"),
  stage("podNic", "nodePeer"),
  stage("nodePeer", "nodeBridge"),
];
/** From the pod's own bridge, where the node's side of the pod NIC cannot be used. */
const INWARD_IN_POD: readonly Stage[] = [stage("tap", "guest")];
const FROM_GUEST_IN_POD: readonly Stage[] = [stage("tap", "tap", "podBridge"), stage("podBridge")];
/** What answers the gateway leaves the pod, wherever the question was sent from. */
const FROM_GUEST_TO_NIC: readonly Stage[] = [
  stage("tap", "tap", "podBridge", "podNic"),
  stage("podNic"),
];

/** Frames to all are seen on a bridge, those to one MAC only where the bridge itself has that MAC. */
const TO_ONE: readonly ProbeName[] = ["echo", "echoLarge", "echoPartial"];
const TO_GUEST: readonly ProbeName[] = ["inward", "inwardLarge", "ping", "connect"];

/** Whether such a frame is to leave the node. */
function leavesNode({ links, target }: SeenWay, probe: ProbeName): boolean {
  return probe === "own" || probe === "dhcp" ? links.uplinks.length > 0 : target?.at === "beyond";
}

/** Whether such frames are seen on the bridge of the node. */
function showsOnBridge({ links, target }: SeenWay, probe: ProbeName): boolean {
  if (links.nodeBridge === undefined) return false;
  return !TO_ONE.includes(probe) || target?.at === "bridge";
}

function peerStage(seen: SeenWay, probe: ProbeName): Stage {
  return seen.links.nodeBridge === undefined || showsOnBridge(seen, probe)
    ? stage("nodePeer", "nodePeer", "nodeBridge")
    : stage("nodePeer", "nodeBridge", "nodePeer", "uplink");
}

function outwardStages(seen: SeenWay, probe: ProbeName): readonly Stage[] {
  const hasPeer = seen.links.onNode === "peer";
  const stages = [
    stage("podNic", hasPeer ? "nodePeer" : "uplink"),
    ...(hasPeer ? [peerStage(seen, probe)] : []),
    ...(showsOnBridge(seen, probe) ? [stage("nodeBridge", "nodeBridge", "uplink")] : []),
    ...(leavesNode(seen, probe) ? [stage("uplink")] : []),
  ];
  // What has come to the last of them has nobody to blame but who is asked.
  return stages.map((each, at) => (at === stages.length - 1 ? stage(each.hop, "gateway") : each));
}

function returnStages({ links, target, isBridged }: SeenWay): readonly Stage[] {
  return [
    ...(target?.at === "beyond" ? [stage("uplink", "nodeBridge", "uplink", "nodePeer")] : []),
    ...(links.onNode === "peer" ? [stage("nodePeer", "podNic")] : []),
    stage("podNic", "podBridge", "podNic", "tap"),
    ...(isBridged ? [stage("tap")] : []),
  ];
}

/** The ways of a question and of its answer, and who is to blame where the question was seen nowhere. */
interface Ways {
  readonly question: readonly Stage[];
  readonly answer: readonly Stage[];
  readonly first: HopName;
}

function waysOf(seen: SeenWay, probe: ProbeName): Ways {
  if (!TO_GUEST.includes(probe)) {
    return { question: outwardStages(seen, probe), answer: returnStages(seen), first: "podNic" };
  }
  if (seen.isBridged && seen.links.onNode === "peer") {
    return { question: INWARD, answer: FROM_GUEST, first: "nodePeer" };
  }
  const isToGateway = seen.isBridged && (probe === "ping" || probe === "connect");
  const answer = isToGateway ? FROM_GUEST_TO_NIC : FROM_GUEST_IN_POD;
  return { question: INWARD_IN_POD, answer, first: "podBridge" };
}

/** A filter that is on the hop, and that may drop what is lost there. */
export function filterOn(hop: HopName, { filters = [], links }: SeenWay): FrameFilter | undefined {
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

/** Whether something on the hop is known by which frames may be lost there. */
function hasCause(hop: HopName, seen: SeenWay): boolean {
  const place = { podBridge: "pod", nodeBridge: "node" }[hop as string];
  const leadsAway = (seen.entries ?? []).some(({ at }) => at === place);
  return leadsAway || filterOn(hop, seen) !== undefined;
}

/** What leaves the pod NIC is lost before it is seen there, so the guest's frames are lost there too. */
function losesAllOut({ traces }: SeenWay): boolean {
  const outward = traces.find(({ probe }) => probe === "outward");
  return outward?.asked.length === 0 && outward.answered.length === 0;
}

function choose(blamed: readonly HopName[], seen: SeenWay): HopName | undefined {
  if (blamed.length > 1 && blamed.includes("podNic") && blamed[0] === "tap" && losesAllOut(seen)) {
    return "podNic";
  }
  return blamed.find((hop) => hasCause(hop, seen)) ?? blamed[0];
}

/** The hops that may have lost it; undefined: it came to the end of its way. */
function lostAt(
  stages: readonly Stage[],
  seen: readonly HopName[],
  first: HopName | undefined,
): readonly HopName[] | undefined {
  const last = stages.findLastIndex(({ hop }) => seen.includes(hop));
  if (last === stages.length - 1) return undefined;
  return stages[last]?.blamed ?? (first === undefined ? [] : [first]);
}

/** The hop where the question of that trace dies; undefined: it came to who is asked. */
export function questionLostAt(trace: FrameTrace, seen: SeenWay): HopName | undefined {
  const { question, first } = waysOf(seen, trace.probe);
  return choose(lostAt(question, trace.asked, first) ?? [], seen);
}

/** The hop where frames of that trace die; undefined: they came all the way there and back. */
export function frameLostAt(trace: FrameTrace, seen: SeenWay): HopName | undefined {
  const { question, answer } = waysOf(seen, trace.probe);
  const asked = question.at(-1)?.blamed[0];
  return trace.answered.length === 0
    ? (questionLostAt(trace, seen) ?? asked)
    : choose(lostAt(answer, trace.answered, asked) ?? [], seen);
}

/** Fewer may be lost by chance or load, of one series. */
const LOST_MIN = 2;
const LOST_SHARE_MIN = 0.15;

/** The hop at which most frames of a series were lost; undefined: too few were. */
export function lossAt(
  { probe, sent, asked, answered }: LossCount,
  seen: SeenWay,
): { readonly hop: HopName; readonly lost: number } | undefined {
  const { question, answer, first } = waysOf(seen, probe);
  const counts = [
    { count: sent, blamed: [first] },
    ...question.map(({ hop, blamed }) => ({ count: asked[hop] ?? 0, blamed })),
    ...answer.map(({ hop, blamed }) => ({ count: answered[hop] ?? 0, blamed })),
  ];
  const losses = counts.slice(1).map(({ count }, at) => {
    const before = counts[at];
    return { lost: (before?.count ?? 0) - count, left: count, blamed: before?.blamed ?? [] };
  });
  const [most] = losses.toSorted((a, b) => b.lost - a.lost);
  // What is lost as a whole is blamed on the hop by single frames.
  if (most === undefined || most.left <= 0) return undefined;
  if (most.lost < LOST_MIN || most.lost < sent * LOST_SHARE_MIN) return undefined;
  const hop = choose(most.blamed, seen);
  return hop === undefined ? undefined : { hop, lost: most.lost };
}
