// SPDX-License-Identifier: Apache-2.0
import type {
  IfaceHistory,
  IfaceOperation,
  IfaceStatus,
  VirtualMachineInstance,
  OperationEnd,
} from "@patchbay/api";
import { omitUndefined, toMs } from "@patchbay/base";
import { findByName } from "../nics/nics.ts";
import {
  updateTimings,
  type IfaceStage,
  type PhaseTimings,
  type ObservationTime,
} from "../nics/status/phase-timings.ts";
import { mergeHistory, recordOperation } from "./record.ts";

/** Longest message in characters. Longer ones, from other components, are cut. */
const MESSAGE_MAX = 200;

function truncate(message: string | undefined): string | undefined {
  if (message === undefined || message.length <= MESSAGE_MAX) return message;
  return `${message.slice(0, MESSAGE_MAX - 1)}…`;
}

/** Adds the reason if it has attempts, which means that a step failed. */
function withBlockedReason(
  operation: IfaceOperation,
  hotplug: IfaceStatus["hotplug"],
): IfaceOperation {
  if (hotplug?.attempts === undefined) return operation;
  const { reason, message, attempts } = hotplug;
  return { ...operation, ...omitUndefined({ reason, message: truncate(message), attempts }) };
}

function toOperation(story: PhaseTimings): IfaceOperation {
  const { type, networkName, startTimestamp, spent, phase, heldUpBy } = story;
  const over = spent.map((each) => ({ phase: each.phase, milliseconds: Math.round(each.ms) }));
  const isAgain = over.some((each) => each.phase === phase);
  return omitUndefined({
    type,
    networkName,
    startTimestamp,
    phases: isAgain ? over : [...over, { phase }],
    reason: heldUpBy?.reason,
    message: truncate(heldUpBy?.message),
    attempts: heldUpBy?.attempts,
  });
}

/** The outcome, by the NIC's next stage. Undefined if nothing of the NIC is left. */
function findOutcome(story: PhaseTimings, next: IfaceStage | undefined): OperationEnd {
  const isReady = next?.phase === "Ready";
  const isDone = {
    Plug: isReady,
    Swap: isReady && next.podInterfaceName !== story.podInterfaceName,
    // After the guest has released the device, an unplug cannot be canceled.
    Unplug: next === undefined || (!isReady && story.phase !== "Detaching"),
  }[story.type];
  return isDone ? "Done" : "Cancelled";
}

function endedOperation(
  story: PhaseTimings,
  next: IfaceStage | undefined,
  { nowMs, now }: ObservationTime,
): IfaceOperation {
  const { phases, ...operation } = toOperation(story);
  const lastMs = Math.round(nowMs - story.phaseMs);
  return {
    ...operation,
    phases: phases.map((each) =>
      each.phase === story.phase
        ? { ...each, milliseconds: (each.milliseconds ?? 0) + lastMs }
        : each,
    ),
    endTimestamp: now,
    outcome: findOutcome(story, next),
  };
}

/**
 * Restores the timings of an operation that started in another process or on another node. The duration of its current
 * phase is computed from both clocks. `podInterfaceName` is the pod NIC at the start.
 */
function restoreTimings(
  operation: IfaceOperation,
  podInterfaceName: string,
  { nowMs, now }: ObservationTime,
): PhaseTimings | undefined {
  const { type, startTimestamp, networkName, phases, reason, message, attempts } = operation;
  const phase = phases.at(-1)?.phase;
  if (type === "LinkState" || phase === undefined) return undefined;
  const spent = phases.flatMap(({ phase: over, milliseconds: ms }) =>
    ms === undefined ? [] : [{ phase: over, ms }],
  );
  const agoMs = Math.max(0, (toMs(now) ?? 0) - (toMs(startTimestamp) ?? 0));
  const begunMs = nowMs - agoMs;
  return omitUndefined({
    type,
    isWhole: true,
    begunMs,
    phase,
    phaseMs: Math.min(nowMs, begunMs + spent.reduce((sum, { ms }) => sum + ms, 0)),
    spent,
    startTimestamp,
    isLive: true,
    isRepair: false,
    networkName,
    podInterfaceName,
    heldUpBy: reason === undefined ? undefined : omitUndefined({ reason, message, attempts }),
  });
}

export interface ObservedNics {
  readonly stories: ReadonlyMap<string, PhaseTimings>;
  readonly links: ReadonlyMap<string, IfaceOperation>;
  readonly ended: IfaceHistory;
}

const NO_NICS: ObservedNics = { stories: new Map(), links: new Map(), ended: [] };

/** One NIC in one pass. `stage` is unset if nothing of the NIC is left. */
interface ObservedNic {
  readonly name: string;
  readonly story?: PhaseTimings | undefined;
  readonly link?: IfaceOperation | undefined;
  readonly stage?: IfaceStage | undefined;
  readonly told?: IfaceStatus | undefined;
  readonly isRunning: boolean;
}

interface NextNic {
  readonly story?: PhaseTimings | undefined;
  readonly link?: IfaceOperation | undefined;
  readonly ended: readonly IfaceOperation[];
}

/** Starts of a guest and repairs are not requested operations. */
function isOperation({ phase, isLive, isRepair }: PhaseTimings): boolean {
  return phase !== "Ready" && isLive && !isRepair;
}

function nextTimings(
  { story, stage, told, isRunning }: ObservedNic,
  at: ObservationTime,
): PhaseTimings | undefined {
  if (stage === undefined) return undefined;
  const phase = told?.hotplug?.phase;
  const wasReady = phase === "Ready";
  const isNew = isRunning && (story !== undefined || phase === undefined || wasReady);
  return updateTimings(story, { ...stage, ...at, isNew, isRunning, wasReady });
}

function isOver(story: PhaseTimings, next: PhaseTimings | undefined): boolean {
  return next?.phase === "Ready" || next?.type !== story.type;
}

/** An operation that completed within one pass, or before a process died without reporting it. */
function completedAtOnce(
  { networkName }: IfaceStage,
  { now }: ObservationTime,
  what: Pick<IfaceOperation, "type" | "linkState">,
): IfaceOperation {
  const times = { startTimestamp: now, endTimestamp: now };
  return omitUndefined({ ...what, networkName, ...times, outcome: "Done" as const, phases: [] });
}

function findUnseenPlug(
  { stage, told, isRunning }: ObservedNic,
  at: ObservationTime,
): readonly IfaceOperation[] {
  const isNews = isRunning && told === undefined && stage?.phase === "Ready";
  return isNews ? [completedAtOnce(stage, at, { type: "Plug" })] : [];
}

function advanceTimings(nic: ObservedNic, at: ObservationTime): Pick<NextNic, "story" | "ended"> {
  const { story, stage, told } = nic;
  const next = nextTimings(nic, at);
  if (story === undefined) return { story: next, ended: findUnseenPlug(nic, at) };
  const hasEnded = isOperation(story) && isOver(story, next);
  const ended = hasEnded ? [endedOperation(story, stage, at)] : [];
  // A NIC that has just disappeared is still in the status.
  return { story: next ?? (told === undefined ? undefined : story), ended };
}

/** A link state that changed by itself is repaired, but is no requested operation. */
function startLinkChange(
  { stage, told }: ObservedNic,
  { now }: ObservationTime,
): IfaceOperation | undefined {
  const wanted = stage?.link?.wanted;
  if (wanted === undefined || told?.linkState === undefined || told.linkState === wanted) {
    return undefined;
  }
  const { networkName } = stage ?? {};
  return omitUndefined({
    type: "LinkState",
    networkName,
    linkState: wanted,
    startTimestamp: now,
    phases: [],
  } as const);
}

function findUnseenLinkChange(
  { stage, told }: ObservedNic,
  at: ObservationTime,
): readonly IfaceOperation[] {
  const { is, wanted } = stage?.link ?? {};
  if (stage === undefined || is === undefined || wanted !== undefined) return [];
  const isNews = told?.linkState !== undefined && told.linkState !== is;
  return isNews ? [completedAtOnce(stage, at, { type: "LinkState", linkState: is })] : [];
}

function advanceLink(nic: ObservedNic, at: ObservationTime): Pick<NextNic, "link" | "ended"> {
  const { link: before, stage } = nic;
  if (before === undefined)
    return { link: startLinkChange(nic, at), ended: findUnseenLinkChange(nic, at) };
  // A network swap is active.
  if (stage !== undefined && stage.link === undefined) return { link: before, ended: [] };
  if (stage?.link?.wanted === before.linkState) return { link: before, ended: [] };
  const outcome = stage?.link?.is === before.linkState ? "Done" : "Cancelled";
  const ended = [{ ...before, endTimestamp: at.now, outcome } as const];
  return { link: startLinkChange(nic, at), ended };
}

function advanceNic(nic: ObservedNic, at: ObservationTime): NextNic {
  const { story, ended } = advanceTimings(nic, at);
  const link = advanceLink(nic, at);
  return { story, link: link.link, ended: [...ended, ...link.ended] };
}

function openOperations(
  { status }: VirtualMachineInstance,
  name: string,
): readonly IfaceOperation[] {
  const operations = findByName(status?.interfaceHistory, name)?.operations ?? [];
  return operations.filter(({ outcome }) => outcome === undefined);
}

interface HistoryPass {
  readonly at: ObservationTime;
  readonly vmi: VirtualMachineInstance;
  readonly stages: readonly IfaceStage[];
}

/** Falls back to the status for NICs that this process has not observed. */
function observeNic(
  name: string,
  before: ObservedNics,
  { vmi, stages, at }: HistoryPass,
): ObservedNic {
  const stage = findByName(stages, name);
  const told = findByName(vmi.status?.interfaces, name);
  const nic = told?.podInterfaceName ?? stage?.podInterfaceName ?? "";
  const open = openOperations(vmi, name);
  const known = open.flatMap((operation) => restoreTimings(operation, nic, at) ?? []);
  return {
    name,
    story: before.stories.get(name) ?? known.at(-1),
    link: before.links.get(name) ?? open.findLast(({ type }) => type === "LinkState"),
    stage,
    told,
    isRunning: vmi.status?.phase === "Running",
  };
}

function listNames(before: ObservedNics, { vmi, stages }: HistoryPass): readonly string[] {
  const open = (vmi.status?.interfaceHistory ?? [])
    .map(({ name }) => name)
    .filter((name) => openOperations(vmi, name).length > 0);
  const seen = stages.map(({ name }) => name);
  return [...new Set([...seen, ...before.stories.keys(), ...before.links.keys(), ...open])];
}

/** Returns the observations after a pass. `before` is undefined in the first pass. */
export function observeNics(before: ObservedNics | undefined, pass: HistoryPass): ObservedNics {
  const known = before ?? NO_NICS;
  const next = listNames(known, pass).map((name) => ({
    name,
    ...advanceNic(observeNic(name, known, pass), pass.at),
  }));
  const events = next.flatMap(({ name, ended }) => ended.map((operation) => ({ name, operation })));
  return {
    stories: new Map(next.flatMap(({ name, story }) => (story ? [[name, story] as const] : []))),
    links: new Map(next.flatMap(({ name, link }) => (link ? [[name, link] as const] : []))),
    ended: events.reduce(recordOperation, known.ended),
  };
}

function mapValues<T>(
  map: ReadonlyMap<string, T>,
  change: (value: T, name: string) => T,
): ReadonlyMap<string, T> {
  return new Map([...map].map(([name, value]) => [name, change(value, name)]));
}

export function withBlockedReasons(
  seen: ObservedNics,
  interfaces: readonly IfaceStatus[],
): ObservedNics {
  const hindranceOf = (name: string): Required<IfaceStatus>["hotplug"] | undefined => {
    const hotplug = findByName(interfaces, name)?.hotplug;
    return hotplug?.reason === undefined ? undefined : hotplug;
  };
  return {
    ...seen,
    stories: mapValues(seen.stories, (story, name) => {
      const told = hindranceOf(name);
      if (told?.reason === undefined || told.phase !== story.phase) return story;
      const { reason, message, attempts } = told;
      return { ...story, heldUpBy: omitUndefined({ reason, message, attempts }) };
    }),
    links: mapValues(seen.links, (link, name) => withBlockedReason(link, hindranceOf(name))),
  };
}

export function buildHistory(
  told: IfaceHistory,
  { stories, links, ended }: ObservedNics,
): IfaceHistory {
  const open = [
    ...[...stories].flatMap(([name, story]) =>
      isOperation(story) ? [{ name, operations: [toOperation(story)] }] : [],
    ),
    ...[...links].map(([name, link]) => ({ name, operations: [link] })),
  ];
  return mergeHistory(told, [...ended, ...open]);
}
