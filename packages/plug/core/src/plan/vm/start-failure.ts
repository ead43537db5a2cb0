// SPDX-License-Identifier: Apache-2.0
// How long is a VM left alone whose guest ended soon after its start? Source: KubeVirt pkg/virt-controller/watch/vm,
// startFailure; there no guest that was seen running has failed, here one that crashed soon afterwards has.
import {
  isVmiFinal,
  runStrategyOf,
  isFinalPhase,
  type StartFailure,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VmiPhase,
} from "@patchbay/api";
import { printTime, toMs } from "../../time.ts";

/** A guest that ran so long has started, milliseconds. */
const RAN_WELL_MS = 60_000;
/** The pause after the first early end, milliseconds; it grows with the square of their number. Source: KubeVirt. */
const FIRST_PAUSE_MS = 10_000;
/** Source: KubeVirt defaultMaxCrashLoopBackoffDelaySeconds (300). */
const MAX_PAUSE_MS = 300_000;

function sinceOf(
  vmi: VirtualMachineInstance,
  isPhase: (phase: VmiPhase) => boolean,
): number | undefined {
  const entry = vmi.status?.phaseTransitionTimestamps?.find(({ phase }) => isPhase(phase));
  return toMs(entry?.phaseTransitionTimestamp);
}

/** How long the guest has run or ran, milliseconds; 0 when nobody saw it run. */
function ranMs(vmi: VirtualMachineInstance, nowMs: number): number {
  const since = sinceOf(vmi, (phase) => phase === "Running");
  if (since === undefined) return 0;
  const end = sinceOf(vmi, isFinalPhase);
  return (end ?? nowMs) - since;
}

/** Only a VM that is started again by itself has pauses. */
function isRestarted(vm: VirtualMachine, vmi: VirtualMachineInstance | undefined): boolean {
  const strategy = runStrategyOf(vm);
  return (
    strategy === "Always" || (strategy === "RerunOnFailure" && vmi?.status?.phase !== "Succeeded")
  );
}

function oneMore(before: StartFailure | undefined, uid: string, nowMs: number): StartFailure {
  const count = (before?.consecutiveFailCount ?? 0) + 1;
  const pauseMs = Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * count * count);
  return {
    consecutiveFailCount: count,
    lastFailedVMIUID: uid,
    retryAfterTimestamp: printTime(nowMs + pauseMs),
  };
}

function endedByItself(vmi: VirtualMachineInstance): boolean {
  return isVmiFinal(vmi) && vmi.metadata.deletionTimestamp === undefined;
}

/**
 * Whether the guest has started, all the same how long ago: it ran well, or was seen running and shut down by itself, or was
 * ended by its node, which says why.
 */
function hasStarted(vmi: VirtualMachineInstance, nowMs: number): boolean {
  if (ranMs(vmi, nowMs) >= RAN_WELL_MS) return true;
  const wasSeen = sinceOf(vmi, (phase) => phase === "Running") !== undefined;
  const { phase, reason } = vmi.status ?? {};
  return wasSeen && endedByItself(vmi) && (phase === "Succeeded" || reason !== undefined);
}

/**
 * `status.startFailure` as it is to be; undefined: nothing fails. Who has a guest restarted soon after its start, or deletes
 * it, has ended it: that is no failure.
 */
export function startFailureOf(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance | undefined,
  now: string,
): StartFailure | undefined {
  const before = vm.status?.startFailure;
  if (!isRestarted(vm, vmi)) return undefined;
  if (vmi === undefined) return before;
  const nowMs = toMs(now) ?? 0;
  if (hasStarted(vmi, nowMs)) return undefined;
  const uid = vmi.metadata.uid ?? "";
  if (!endedByItself(vmi) || before?.lastFailedVMIUID === uid) return before;
  return oneMore(before, uid, nowMs);
}

/** How long the VM is not to be started yet, milliseconds; 0: it may be. */
export function startPauseMs(failure: StartFailure | undefined, now: string): number {
  const untilMs = toMs(failure?.retryAfterTimestamp);
  return untilMs === undefined ? 0 : Math.max(0, untilMs - (toMs(now) ?? 0));
}

/** After how long a guest that runs will have run well, milliseconds; undefined: nothing waits for it. */
export function wellInMs(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance | undefined,
  now: string,
): number | undefined {
  if (vm.status?.startFailure === undefined || vmi?.status?.phase !== "Running") return undefined;
  return Math.max(0, RAN_WELL_MS - ranMs(vmi, toMs(now) ?? 0));
}
