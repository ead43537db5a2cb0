// SPDX-License-Identifier: Apache-2.0
// At which hop was a frame lost, given where it was seen?
import type { FrameTrace, ProbeName, SeenWay } from "./facts.ts";
import type { HopName } from "./report.ts";

/** A place where a frame comes by, and who is to blame when it is seen there and nowhere behind. */
interface Stage {
  readonly hop: HopName;
  readonly blamed: HopName;
}

function stage(hop: HopName, blamed: HopName = hop): Stage {
  return { hop, blamed };
}

/** Of a frame that leaves a link the next one is to blame, of one that came in the link itself. */
const INWARD: readonly Stage[] = [
  stage("nodePeer", "podNic"),
  stage("podNic", "podBridge"),
  stage("tap", "guest"),
];
const FROM_GUEST: readonly Stage[] = [
  stage("tap"),
  stage("podNic", "nodePeer"),
  stage("nodePeer", "nodeBridge"),
];
/** From the pod's own bridge, where the node's side of the pod NIC cannot be used. */
const INWARD_IN_POD: readonly Stage[] = [stage("tap", "guest")];
const FROM_GUEST_IN_POD: readonly Stage[] = [stage("tap"), stage("podBridge")];

/** Frames to all are seen on a bridge, those to one MAC are not. */
const TO_ONE: readonly ProbeName[] = ["inward", "inwardLarge", "echo", "echoLarge", "echoPartial"];

/** Whether such a frame is to leave the node. */
function leavesNode({ links, target }: SeenWay, probe: ProbeName): boolean {
  return probe === "own" || probe === "dhcp" ? links.uplinks.length > 0 : target?.at === "beyond";
}

function outwardStages(seen: SeenWay, probe: ProbeName): readonly Stage[] {
  const { links } = seen;
  const hasPeer = links.onNode === "peer";
  const hasBridge = links.nodeBridge !== undefined;
  const showsOnBridge = hasBridge && !TO_ONE.includes(probe);
  const isLeaving = leavesNode(seen, probe);
  const stages = [
    stage("podNic", hasPeer ? "nodePeer" : "uplink"),
    ...(hasPeer
      ? [stage("nodePeer", hasBridge && !showsOnBridge ? "nodeBridge" : "nodePeer")]
      : []),
    ...(showsOnBridge ? [stage("nodeBridge")] : []),
    ...(isLeaving ? [stage("uplink")] : []),
  ];
  // What has come to the last of them has nobody to blame but who is asked.
  return stages.map((each, at) => (at === stages.length - 1 ? stage(each.hop, "gateway") : each));
}

function returnStages({ links, target, isBridged }: SeenWay): readonly Stage[] {
  return [
    ...(target?.at === "beyond" ? [stage("uplink", "nodeBridge")] : []),
    ...(links.onNode === "peer" ? [stage("nodePeer", "podNic")] : []),
    stage("podNic", "podBridge"),
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
  if (probe !== "inward" && probe !== "inwardLarge") {
    return { question: outwardStages(seen, probe), answer: returnStages(seen), first: "podNic" };
  }
  return seen.isBridged && seen.links.onNode === "peer"
    ? { question: INWARD, answer: FROM_GUEST, first: "nodePeer" }
    : { question: INWARD_IN_POD, answer: FROM_GUEST_IN_POD, first: "podBridge" };
}

/** The hop that lost it; undefined: it came to the end of its way. */
function lostAt(
  stages: readonly Stage[],
  seen: readonly HopName[],
  first: HopName | undefined,
): HopName | undefined {
  const last = stages.findLastIndex(({ hop }) => seen.includes(hop));
  return last === stages.length - 1 ? undefined : (stages[last]?.blamed ?? first);
}

/** The hop where the question of that trace dies; undefined: it came to who is asked. */
export function questionLostAt(trace: FrameTrace, seen: SeenWay): HopName | undefined {
  const { question, first } = waysOf(seen, trace.probe);
  return lostAt(question, trace.asked, first);
}

/** The hop where frames of that trace die; undefined: they came all the way there and back. */
export function frameLostAt(trace: FrameTrace, seen: SeenWay): HopName | undefined {
  const { question, answer } = waysOf(seen, trace.probe);
  const asked = question.at(-1)?.blamed;
  return trace.answered.length === 0
    ? (questionLostAt(trace, seen) ?? asked)
    : lostAt(answer, trace.answered, asked);
}
