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

/** Longest message in characters. Other components may report longer ones, which are cut. */
const MESSAGE_MAX = 200;

function truncate(message: string | undefined): string | undefined {
  if (message === undefined || message.length <= MESSAGE_MAX) return message;
  return `${message.slice(0, MESSAGE_MAX - 1)}…`;
}

/** Adds the blocked reason and its attempts. A reason without attempts is no failed step and is ignored. */
function withBlockedReason(
  operation: IfaceOperation,
  hotplug: IfaceStatus["hotplug"],
): IfaceOperation {
  if (hotplug?.attempts === undefined) return operation;
  const { reason, message, attempts } = hotplug;
  return { ...operation, ...omitUndefined({ reason, message: truncate(message), attempts }) };
}

function toOperation(timings: PhaseTimings): IfaceOperation {
  const { type, networkName, startTimestamp, spent, phase, blockedBy } = timings;
  const endedPhases = spent.map((each) => ({
    phase: each.phase,
    milliseconds: Math.round(each.ms),
  }));
  const isRepeated = endedPhases.some((each) => each.phase === phase);
  return omitUndefined({
    type,
    networkName,
    startTimestamp,
    phases: isRepeated ? endedPhases : [...endedPhases, { phase }],
    reason: blockedBy?.reason,
    message: truncate(blockedBy?.message),
    attempts: blockedBy?.attempts,
  });
}

/** Returns the outcome by the NIC's next stage, which is undefined if nothing of the NIC is left. */
function findOutcome(timings: PhaseTimings, next: IfaceStage | undefined): OperationEnd {
  const isReady = next?.phase === "Ready";
  const isDone = {
    Plug: isReady,
    Swap: isReady && next.podInterfaceName !== timings.podInterfaceName,
    // After the guest has released the device, an unplug cannot be canceled.
    Unplug: next === undefined || (!isReady && timings.phase !== "Detaching"),
  }[timings.type];
  return isDone ? "Done" : "Cancelled";
}

function endedOperation(
  timings: PhaseTimings,
  next: IfaceStage | undefined,
  { nowMs, now }: ObservationTime,
): IfaceOperation {
  const { phases, ...operation } = toOperation(timings);
  const lastMs = Math.round(nowMs - timings.phaseMs);
  return {
    ...operation,
    phases: phases.map((each) =>
      each.phase === timings.phase
        ? { ...each, milliseconds: (each.milliseconds ?? 0) + lastMs }
        : each,
    ),
    endTimestamp: now,
    outcome: findOutcome(timings, next),
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
  const startedMs = nowMs - agoMs;
  return omitUndefined({
    type,
    isStartObserved: true,
    startedMs,
    phase,
    phaseMs: Math.min(nowMs, startedMs + spent.reduce((sum, { ms }) => sum + ms, 0)),
    spent,
    startTimestamp,
    isLive: true,
    isRepair: false,
    networkName,
    podInterfaceName,
    blockedBy: reason === undefined ? undefined : omitUndefined({ reason, message, attempts }),
  });
}

export interface ObservedNics {
  readonly timings: ReadonlyMap<string, PhaseTimings>;
  readonly links: ReadonlyMap<string, IfaceOperation>;
  readonly ended: IfaceHistory;
}

const NO_NICS: ObservedNics = { timings: new Map(), links: new Map(), ended: [] };

/** Input of one pass for one NIC. `stage` is unset if nothing of the NIC is left. */
interface ObservedNic {
  readonly name: string;
  readonly timings?: PhaseTimings | undefined;
  readonly link?: IfaceOperation | undefined;
  readonly stage?: IfaceStage | undefined;
  readonly reported?: IfaceStatus | undefined;
  readonly isRunning: boolean;
}

interface NextNic {
  readonly timings?: PhaseTimings | undefined;
  readonly link?: IfaceOperation | undefined;
  readonly ended: readonly IfaceOperation[];
}

/** Whether the timings are of a requested operation, and not of a guest's start or a repair. */
function isOperation({ phase, isLive, isRepair }: PhaseTimings): boolean {
  return phase !== "Ready" && isLive && !isRepair;
}

function nextTimings(
  { timings, stage, reported, isRunning }: ObservedNic,
  at: ObservationTime,
): PhaseTimings | undefined {
  if (stage === undefined) return undefined;
  const phase = reported?.hotplug?.phase;
  const wasReady = phase === "Ready";
  const isNew = isRunning && (timings !== undefined || phase === undefined || wasReady);
  return updateTimings(timings, { ...stage, ...at, isNew, isRunning, wasReady });
}

function isOver(timings: PhaseTimings, next: PhaseTimings | undefined): boolean {
  return next?.phase === "Ready" || next?.type !== timings.type;
}

/** Builds an operation that completed within one pass, or that an earlier process did not report before it ended. */
function buildCompleted(
  { networkName }: IfaceStage,
  { now }: ObservationTime,
  what: Pick<IfaceOperation, "type" | "linkState">,
): IfaceOperation {
  const times = { startTimestamp: now, endTimestamp: now };
  return omitUndefined({ ...what, networkName, ...times, outcome: "Done" as const, phases: [] });
}

function findUnseenPlug(
  { stage, reported, isRunning }: ObservedNic,
  at: ObservationTime,
): readonly IfaceOperation[] {
  const isUnreported = isRunning && reported === undefined && stage?.phase === "Ready";
  return isUnreported ? [buildCompleted(stage, at, { type: "Plug" })] : [];
}

function advanceTimings(nic: ObservedNic, at: ObservationTime): Pick<NextNic, "timings" | "ended"> {
  const { timings, stage, reported } = nic;
  const next = nextTimings(nic, at);
  if (timings === undefined) return { timings: next, ended: findUnseenPlug(nic, at) };
  const hasEnded = isOperation(timings) && isOver(timings, next);
  const ended = hasEnded ? [endedOperation(timings, stage, at)] : [];
  // The timings of a NIC that has disappeared stay until the status omits the NIC.
  return { timings: next ?? (reported === undefined ? undefined : timings), ended };
}

/** Returns an operation if a new link state was requested. The repair of a link state that changed by itself is none. */
function startLinkChange(
  { stage, reported }: ObservedNic,
  { now }: ObservationTime,
): IfaceOperation | undefined {
  const wanted = stage?.link?.wanted;
  if (wanted === undefined || reported?.linkState === undefined || reported.linkState === wanted) {
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
  { stage, reported }: ObservedNic,
  at: ObservationTime,
): readonly IfaceOperation[] {
  const { state, wanted } = stage?.link ?? {};
  if (stage === undefined || state === undefined || wanted !== undefined) return [];
  const isUnreported = reported?.linkState !== undefined && reported.linkState !== state;
  return isUnreported ? [buildCompleted(stage, at, { type: "LinkState", linkState: state })] : [];
}

function advanceLink(nic: ObservedNic, at: ObservationTime): Pick<NextNic, "link" | "ended"> {
  const { link: before, stage } = nic;
  if (before === undefined)
    return { link: startLinkChange(nic, at), ended: findUnseenLinkChange(nic, at) };
  // Without a link stage, a network swap is active.
  if (stage !== undefined && stage.link === undefined) return { link: before, ended: [] };
  if (stage?.link?.wanted === before.linkState) return { link: before, ended: [] };
  const outcome = stage?.link?.state === before.linkState ? "Done" : "Cancelled";
  const ended = [{ ...before, endTimestamp: at.now, outcome } as const];
  return { link: startLinkChange(nic, at), ended };
}

function advanceNic(nic: ObservedNic, at: ObservationTime): NextNic {
  const { timings, ended } = advanceTimings(nic, at);
  const link = advanceLink(nic, at);
  return { timings, link: link.link, ended: [...ended, ...link.ended] };
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

/** Returns the input for one NIC. If this process has not observed the NIC, operations are restored from the status. */
function observeNic(
  name: string,
  before: ObservedNics,
  { vmi, stages, at }: HistoryPass,
): ObservedNic {
  const stage = findByName(stages, name);
  const reported = findByName(vmi.status?.interfaces, name);
  const nic = reported?.podInterfaceName ?? stage?.podInterfaceName ?? "";
  const open = openOperations(vmi, name);
  const known = open.flatMap((operation) => restoreTimings(operation, nic, at) ?? []);
  return {
    name,
    timings: before.timings.get(name) ?? known.at(-1),
    link: before.links.get(name) ?? open.findLast(({ type }) => type === "LinkState"),
    stage,
    reported,
    isRunning: vmi.status?.phase === "Running",
  };
}

function listNames(before: ObservedNics, { vmi, stages }: HistoryPass): readonly string[] {
  const open = (vmi.status?.interfaceHistory ?? [])
    .map(({ name }) => name)
    .filter((name) => openOperations(vmi, name).length > 0);
  const observed = stages.map(({ name }) => name);
  return [...new Set([...observed, ...before.timings.keys(), ...before.links.keys(), ...open])];
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
    timings: new Map(
      next.flatMap(({ name, timings }) => (timings ? [[name, timings] as const] : [])),
    ),
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
  observed: ObservedNics,
  interfaces: readonly IfaceStatus[],
): ObservedNics {
  const findBlockedReason = (name: string): Required<IfaceStatus>["hotplug"] | undefined => {
    const hotplug = findByName(interfaces, name)?.hotplug;
    return hotplug?.reason === undefined ? undefined : hotplug;
  };
  return {
    ...observed,
    timings: mapValues(observed.timings, (timings, name) => {
      const reported = findBlockedReason(name);
      if (reported?.reason === undefined || reported.phase !== timings.phase) return timings;
      const { reason, message, attempts } = reported;
      return { ...timings, blockedBy: omitUndefined({ reason, message, attempts }) };
    }),
    links: mapValues(observed.links, (link, name) =>
      withBlockedReason(link, findBlockedReason(name)),
    ),
  };
}

export function buildHistory(
  reported: IfaceHistory,
  { timings, links, ended }: ObservedNics,
): IfaceHistory {
  const open = [
    ...[...timings].flatMap(([name, timings]) =>
      isOperation(timings) ? [{ name, operations: [toOperation(timings)] }] : [],
    ),
    ...[...links].map(([name, link]) => ({ name, operations: [link] })),
  ];
  return mergeHistory(reported, [...ended, ...open]);
}
