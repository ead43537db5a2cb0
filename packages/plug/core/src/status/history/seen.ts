// SPDX-License-Identifier: Apache-2.0
// What a node sees of the NICs of one VMI from pass to pass → what is new for their history.
import type {
  IfaceHistory,
  IfaceOperation,
  IfaceStatus,
  VirtualMachineInstance,
} from "@patchbay/api";
import { dropAbsent } from "../../drop-absent.ts";
import { findByName } from "../../spec/nics.ts";
import { storyAfter, type IfaceStage, type IfaceStory, type Moment } from "../ifaces/story.ts";
import { endedOperation, operationOf, storyOf, withHindrance } from "./operation.ts";
import { mergedHistory, recordOperation } from "./record.ts";

/** What was seen of the NICs of one VMI, by their names. */
export interface SeenNics {
  readonly stories: ReadonlyMap<string, IfaceStory>;
  /** Changes of links that go on. */
  readonly links: ReadonlyMap<string, IfaceOperation>;
  /** Operations that are over, and not told yet. */
  readonly ended: IfaceHistory;
}

const NOTHING: SeenNics = { stories: new Map(), links: new Map(), ended: [] };

/** One NIC in one pass: what was known of it, and how it is; nothing is left of it where there is no stage. */
interface SeenNic {
  readonly name: string;
  readonly story?: IfaceStory | undefined;
  readonly link?: IfaceOperation | undefined;
  readonly stage?: IfaceStage | undefined;
  readonly told?: IfaceStatus | undefined;
  readonly isRunning: boolean;
}

/** What becomes of it. */
interface NextOfNic {
  readonly story?: IfaceStory | undefined;
  readonly link?: IfaceOperation | undefined;
  readonly ended: readonly IfaceOperation[];
}

/** Starts of guests, and repairs, are nobody's operations. */
function isOperation({ phase, isLive, isRepair }: IfaceStory): boolean {
  return phase !== "Ready" && isLive && !isRepair;
}

/** Absent: nothing is left of the NIC. */
function storyNow({ story, stage, told, isRunning }: SeenNic, at: Moment): IfaceStory | undefined {
  if (stage === undefined) return undefined;
  const phase = told?.hotplug?.phase;
  const wasReady = phase === "Ready";
  const isNew = isRunning && (story !== undefined || phase === undefined || wasReady);
  return storyAfter(story, { ...stage, ...at, isNew, isRunning, wasReady });
}

function isOver(story: IfaceStory, next: IfaceStory | undefined): boolean {
  return next?.phase === "Ready" || next?.type !== story.type;
}

/** What was done at once, or by a process that died before it could tell. */
function doneUnseen(
  { networkName }: IfaceStage,
  { now }: Moment,
  what: Pick<IfaceOperation, "type" | "linkState">,
): IfaceOperation {
  const times = { startTimestamp: now, endTimestamp: now };
  return dropAbsent({ ...what, networkName, ...times, outcome: "Done" as const, phases: [] });
}

/** A NIC of a running guest that is there, and that nobody has told of. */
function pluggedUnseen({ stage, told, isRunning }: SeenNic, at: Moment): readonly IfaceOperation[] {
  const isNews = isRunning && told === undefined && stage?.phase === "Ready";
  return isNews ? [doneUnseen(stage, at, { type: "Plug" })] : [];
}

function nextStory(nic: SeenNic, at: Moment): Pick<NextOfNic, "story" | "ended"> {
  const { story, stage, told } = nic;
  const next = storyNow(nic, at);
  if (story === undefined) return { story: next, ended: pluggedUnseen(nic, at) };
  const hasEnded = isOperation(story) && isOver(story, next);
  const ended = hasEnded ? [endedOperation(story, stage, at)] : [];
  // One that has just gone is told of yet.
  return { story: next ?? (told === undefined ? undefined : story), ended };
}

/** What links do by themselves is mended, and was asked for by nobody. */
function begunLink({ stage, told }: SeenNic, { now }: Moment): IfaceOperation | undefined {
  const wanted = stage?.link?.wanted;
  if (wanted === undefined || told?.linkState === undefined || told.linkState === wanted) {
    return undefined;
  }
  const { networkName } = stage ?? {};
  return dropAbsent({
    type: "LinkState",
    networkName,
    linkState: wanted,
    startTimestamp: now,
    phases: [],
  } as const);
}

function linkedUnseen({ stage, told }: SeenNic, at: Moment): readonly IfaceOperation[] {
  const { is, wanted } = stage?.link ?? {};
  if (stage === undefined || is === undefined || wanted !== undefined) return [];
  const isNews = told?.linkState !== undefined && told.linkState !== is;
  return isNews ? [doneUnseen(stage, at, { type: "LinkState", linkState: is })] : [];
}

function nextLink(nic: SeenNic, at: Moment): Pick<NextOfNic, "link" | "ended"> {
  const { link: before, stage } = nic;
  if (before === undefined) return { link: begunLink(nic, at), ended: linkedUnseen(nic, at) };
  // Its network is changed meanwhile.
  if (stage !== undefined && stage.link === undefined) return { link: before, ended: [] };
  if (stage?.link?.wanted === before.linkState) return { link: before, ended: [] };
  const outcome = stage?.link?.is === before.linkState ? "Done" : "Cancelled";
  const ended = [{ ...before, endTimestamp: at.now, outcome } as const];
  return { link: begunLink(nic, at), ended };
}

function nextOfNic(nic: SeenNic, at: Moment): NextOfNic {
  const { story, ended } = nextStory(nic, at);
  const link = nextLink(nic, at);
  return { story, link: link.link, ended: [...ended, ...link.ended] };
}

function openOperations(
  { status }: VirtualMachineInstance,
  name: string,
): readonly IfaceOperation[] {
  const operations = findByName(status?.interfaceHistory, name)?.operations ?? [];
  return operations.filter(({ outcome }) => outcome === undefined);
}

/** What is to be looked at, how it is, and when. */
interface Pass {
  readonly at: Moment;
  readonly vmi: VirtualMachineInstance;
  readonly stages: readonly IfaceStage[];
}

/** What this process does not know of a NIC is what was told of it. */
function seenNic(name: string, before: SeenNics, { vmi, stages, at }: Pass): SeenNic {
  const stage = findByName(stages, name);
  const told = findByName(vmi.status?.interfaces, name);
  const nic = told?.podInterfaceName ?? stage?.podInterfaceName ?? "";
  const open = openOperations(vmi, name);
  const known = open.flatMap((operation) => storyOf(operation, nic, at) ?? []);
  return {
    name,
    story: before.stories.get(name) ?? known.at(-1),
    link: before.links.get(name) ?? open.findLast(({ type }) => type === "LinkState"),
    stage,
    told,
    isRunning: vmi.status?.phase === "Running",
  };
}

function namesOf(before: SeenNics, { vmi, stages }: Pass): readonly string[] {
  const open = (vmi.status?.interfaceHistory ?? [])
    .map(({ name }) => name)
    .filter((name) => openOperations(vmi, name).length > 0);
  const seen = stages.map(({ name }) => name);
  return [...new Set([...seen, ...before.stories.keys(), ...before.links.keys(), ...open])];
}

/** What is known after a pass that saw the NICs so; absent before the first one. */
export function seeNics(before: SeenNics | undefined, pass: Pass): SeenNics {
  const known = before ?? NOTHING;
  const next = namesOf(known, pass).map((name) => ({
    name,
    ...nextOfNic(seenNic(name, known, pass), pass.at),
  }));
  const events = next.flatMap(({ name, ended }) => ended.map((operation) => ({ name, operation })));
  return {
    stories: new Map(next.flatMap(({ name, story }) => (story ? [[name, story] as const] : []))),
    links: new Map(next.flatMap(({ name, link }) => (link ? [[name, link] as const] : []))),
    ended: events.reduce(recordOperation, known.ended),
  };
}

function mapped<T>(
  map: ReadonlyMap<string, T>,
  change: (value: T, name: string) => T,
): ReadonlyMap<string, T> {
  return new Map([...map].map(([name, value]) => [name, change(value, name)]));
}

/** With what is told to hold NICs up. */
export function withHindrances(seen: SeenNics, interfaces: readonly IfaceStatus[]): SeenNics {
  const hindranceOf = (name: string): Required<IfaceStatus>["hotplug"] | undefined => {
    const hotplug = findByName(interfaces, name)?.hotplug;
    return hotplug?.reason === undefined ? undefined : hotplug;
  };
  return {
    ...seen,
    stories: mapped(seen.stories, (story, name) => {
      const told = hindranceOf(name);
      if (told?.reason === undefined || told.phase !== story.phase) return story;
      const { reason, message, attempts } = told;
      return { ...story, heldUpBy: dropAbsent({ reason, message, attempts }) };
    }),
    links: mapped(seen.links, (link, name) => withHindrance(link, hindranceOf(name))),
  };
}

/** The history of a VMI, of which `told` was told last. */
export function historyOf(told: IfaceHistory, { stories, links, ended }: SeenNics): IfaceHistory {
  const open = [
    ...[...stories].flatMap(([name, story]) =>
      isOperation(story) ? [{ name, operations: [operationOf(story)] }] : [],
    ),
    ...[...links].map(([name, link]) => ({ name, operations: [link] })),
  ];
  return mergedHistory(told, [...ended, ...open]);
}
