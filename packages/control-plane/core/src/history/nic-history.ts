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

/** Maximum length of an operation's message, in characters. Longer messages are truncated. */
const MAX_MESSAGE_LENGTH = 200;

function truncate(message: string | undefined): string | undefined {
  if (message === undefined || message.length <= MAX_MESSAGE_LENGTH) return message;
  return `${message.slice(0, MAX_MESSAGE_LENGTH - 1)}…`;
}

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
  const endedPhases = spent.map((spentPhase) => ({
    phase: spentPhase.phase,
    milliseconds: Math.round(spentPhase.ms),
  }));
  const isRepeated = endedPhases.some((spentPhase) => spentPhase.phase === phase);
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

/** Returns how the operation ended. `next` is undefined if the NIC was removed. */
function findOutcome(timings: PhaseTimings, next: IfaceStage | undefined): OperationEnd {
  const isReady = next?.phase === "Ready";
  const isDone = {
    Plug: isReady,
    Swap: isReady && next.podInterfaceName !== timings.podInterfaceName,
    // After the guest has released the device, the unplug counts as done even if the NIC is being plugged again.
    Unplug: next === undefined || (!isReady && timings.phase !== "Detaching"),
  }[timings.type];
  return isDone ? "Done" : "Cancelled";
}

function toEndedOperation(
  timings: PhaseTimings,
  next: IfaceStage | undefined,
  { nowMs, now }: ObservationTime,
): IfaceOperation {
  const { phases, ...operation } = toOperation(timings);
  const lastMs = Math.round(nowMs - timings.phaseMs);
  return {
    ...operation,
    phases: phases.map((entry) =>
      entry.phase === timings.phase
        ? { ...entry, milliseconds: (entry.milliseconds ?? 0) + lastMs }
        : entry,
    ),
    endTimestamp: now,
    outcome: findOutcome(timings, next),
  };
}

/**
 * Restores an operation's timings from the status. If another node wrote the status, the duration of the current phase
 * is inaccurate, because it depends on the clocks of both nodes.
 */
function restoreTimings(
  operation: IfaceOperation,
  podInterfaceName: string,
  { nowMs, now }: ObservationTime,
): PhaseTimings | undefined {
  const { type, startTimestamp, networkName, phases, reason, message, attempts } = operation;
  const phase = phases.at(-1)?.phase;
  if (type === "LinkState" || phase === undefined) return undefined;
  const endedPhases = phases.flatMap(({ phase: endedPhase, milliseconds: ms }) =>
    ms === undefined ? [] : [{ phase: endedPhase, ms }],
  );
  const elapsedMs = Math.max(0, (toMs(now) ?? 0) - (toMs(startTimestamp) ?? 0));
  const phaseStartMs = nowMs - elapsedMs;
  return omitUndefined({
    type,
    isStartObserved: true,
    startedMs: phaseStartMs,
    phase,
    phaseMs: Math.min(nowMs, phaseStartMs + endedPhases.reduce((sum, { ms }) => sum + ms, 0)),
    spent: endedPhases,
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

/** State of one NIC in a reconcile pass. `stage` is unset if the NIC has been removed completely. */
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

/** Returns whether the timings belong to an unfinished operation. A repair, or a plug at the guest's start, is not an operation. */
function isOperation({ phase, isLive, isRepair }: PhaseTimings): boolean {
  return phase !== "Ready" && isLive && !isRepair;
}

function advancePhaseTimings(
  { timings, stage, reported, isRunning }: ObservedNic,
  time: ObservationTime,
): PhaseTimings | undefined {
  if (stage === undefined) return undefined;
  const phase = reported?.hotplug?.phase;
  const wasReady = phase === "Ready";
  const isNew = isRunning && (timings !== undefined || phase === undefined || wasReady);
  return updateTimings(timings, { ...stage, ...time, isNew, isRunning, wasReady });
}

function hasOperationEnded(timings: PhaseTimings, next: PhaseTimings | undefined): boolean {
  return next?.phase === "Ready" || next?.type !== timings.type;
}

/** Builds a completed operation without phases, because this process observed only its result. */
function buildCompleted(
  { networkName }: IfaceStage,
  { now }: ObservationTime,
  operationFields: Pick<IfaceOperation, "type" | "linkState">,
): IfaceOperation {
  const timestamps = { startTimestamp: now, endTimestamp: now };
  return omitUndefined({
    ...operationFields,
    networkName,
    ...timestamps,
    outcome: "Done" as const,
    phases: [],
  });
}

function findUnreportedPlug(
  { stage, reported, isRunning }: ObservedNic,
  time: ObservationTime,
): readonly IfaceOperation[] {
  const isUnreported = isRunning && reported === undefined && stage?.phase === "Ready";
  return isUnreported ? [buildCompleted(stage, time, { type: "Plug" })] : [];
}

function advanceTimings(
  nic: ObservedNic,
  time: ObservationTime,
): Pick<NextNic, "timings" | "ended"> {
  const { timings, stage, reported } = nic;
  const next = advancePhaseTimings(nic, time);
  if (timings === undefined) return { timings: next, ended: findUnreportedPlug(nic, time) };
  const hasEnded = isOperation(timings) && hasOperationEnded(timings, next);
  const ended = hasEnded ? [toEndedOperation(timings, stage, time)] : [];
  // The timings of a removed NIC are retained until the status omits the NIC.
  return { timings: next ?? (reported === undefined ? undefined : timings), ended };
}

function startLinkChange(
  { stage, reported }: ObservedNic,
  { now }: ObservationTime,
): IfaceOperation | undefined {
  const wantedLinkState = stage?.link?.wanted;
  if (
    wantedLinkState === undefined ||
    reported?.linkState === undefined ||
    reported.linkState === wantedLinkState
  ) {
    return undefined;
  }
  const { networkName } = stage ?? {};
  return omitUndefined({
    type: "LinkState",
    networkName,
    linkState: wantedLinkState,
    startTimestamp: now,
    phases: [],
  } as const);
}

function findUnreportedLinkChange(
  { stage, reported }: ObservedNic,
  time: ObservationTime,
): readonly IfaceOperation[] {
  const { state, wanted } = stage?.link ?? {};
  if (stage === undefined || state === undefined || wanted !== undefined) return [];
  const isUnreported = reported?.linkState !== undefined && reported.linkState !== state;
  return isUnreported ? [buildCompleted(stage, time, { type: "LinkState", linkState: state })] : [];
}

function advanceLink(nic: ObservedNic, time: ObservationTime): Pick<NextNic, "link" | "ended"> {
  const { link: activeChange, stage } = nic;
  if (activeChange === undefined)
    return { link: startLinkChange(nic, time), ended: findUnreportedLinkChange(nic, time) };
  // During a network swap, the link state is unknown, so the change remains active.
  if (stage !== undefined && stage.link === undefined) return { link: activeChange, ended: [] };
  if (stage?.link?.wanted === activeChange.linkState) return { link: activeChange, ended: [] };
  const outcome = stage?.link?.state === activeChange.linkState ? "Done" : "Cancelled";
  const ended = [{ ...activeChange, endTimestamp: time.now, outcome } as const];
  return { link: startLinkChange(nic, time), ended };
}

function advanceNic(nic: ObservedNic, time: ObservationTime): NextNic {
  const { timings, ended } = advanceTimings(nic, time);
  const link = advanceLink(nic, time);
  return { timings, link: link.link, ended: [...ended, ...link.ended] };
}

function listActiveOperations(
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

/** Collects the state of one NIC. Restores operations from the status if this process has not observed the NIC before. */
function observeNic(
  name: string,
  previousNics: ObservedNics,
  { vmi, stages, at }: HistoryPass,
): ObservedNic {
  const stage = findByName(stages, name);
  const reported = findByName(vmi.status?.interfaces, name);
  const nic = reported?.podInterfaceName ?? stage?.podInterfaceName ?? "";
  const activeOperations = listActiveOperations(vmi, name);
  const restoredTimings = activeOperations.flatMap(
    (operation) => restoreTimings(operation, nic, at) ?? [],
  );
  return {
    name,
    timings: previousNics.timings.get(name) ?? restoredTimings.at(-1),
    link:
      previousNics.links.get(name) ?? activeOperations.findLast(({ type }) => type === "LinkState"),
    stage,
    reported,
    isRunning: vmi.status?.phase === "Running",
  };
}

function listNames(previousNics: ObservedNics, { vmi, stages }: HistoryPass): readonly string[] {
  const activeNames = (vmi.status?.interfaceHistory ?? [])
    .map(({ name }) => name)
    .filter((name) => listActiveOperations(vmi, name).length > 0);
  const observed = stages.map(({ name }) => name);
  return [
    ...new Set([
      ...observed,
      ...previousNics.timings.keys(),
      ...previousNics.links.keys(),
      ...activeNames,
    ]),
  ];
}

/** Returns the observations after a reconcile pass. `previousNics` is undefined in the first pass. */
export function observeNics(
  previousNics: ObservedNics | undefined,
  pass: HistoryPass,
): ObservedNics {
  const knownNics = previousNics ?? NO_NICS;
  const next = listNames(knownNics, pass).map((name) => ({
    name,
    ...advanceNic(observeNic(name, knownNics, pass), pass.at),
  }));
  const events = next.flatMap(({ name, ended }) => ended.map((operation) => ({ name, operation })));
  return {
    timings: new Map(
      next.flatMap(({ name, timings }) => (timings ? [[name, timings] as const] : [])),
    ),
    links: new Map(next.flatMap(({ name, link }) => (link ? [[name, link] as const] : []))),
    ended: events.reduce(recordOperation, knownNics.ended),
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
      const blockedReason = findBlockedReason(name);
      if (blockedReason?.reason === undefined || blockedReason.phase !== timings.phase)
        return timings;
      const { reason, message, attempts } = blockedReason;
      return { ...timings, blockedBy: omitUndefined({ reason, message, attempts }) };
    }),
    links: mapValues(observed.links, (link, name) =>
      withBlockedReason(link, findBlockedReason(name)),
    ),
  };
}

export function buildHistory(
  reportedHistory: IfaceHistory,
  { timings, links, ended }: ObservedNics,
): IfaceHistory {
  const activeEvents = [
    ...[...timings].flatMap(([name, timings]) =>
      isOperation(timings) ? [{ name, operations: [toOperation(timings)] }] : [],
    ),
    ...[...links].map(([name, link]) => ({ name, operations: [link] })),
  ];
  return mergeHistory(reportedHistory, [...ended, ...activeEvents]);
}
