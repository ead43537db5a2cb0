// SPDX-License-Identifier: Apache-2.0
// Backoff for VMs whose guest ends soon after its start. KubeVirt ignores guests that ran; here a guest that crashes
// within a minute counts too. Source: KubeVirt pkg/virt-controller/watch/vm, startFailure.
import {
  isVmiFinal,
  runStrategyOf,
  isFinalPhase,
  type StartFailure,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VmiPhase,
} from "@patchbay/api";
import { printTime, toMs } from "@patchbay/base";

/** Running time after which a guest has started successfully. */
const SUCCESSFUL_RUN_MS = 60_000;
/** Backoff after the first failure. It grows with the square of the count. Source: KubeVirt. */
const FIRST_BACKOFF_MS = 10_000;
/** Longest backoff. Source: KubeVirt defaultMaxCrashLoopBackoffDelaySeconds (300). */
const MAX_BACKOFF_MS = 300_000;

function phaseStartMs(
  vmi: VirtualMachineInstance,
  isPhase: (phase: VmiPhase) => boolean,
): number | undefined {
  const entry = vmi.status?.phaseTransitionTimestamps?.find(({ phase }) => isPhase(phase));
  return toMs(entry?.phaseTransitionTimestamp);
}

/** Returns the milliseconds that the guest has run; 0 if it was never observed running. */
function runningMs(vmi: VirtualMachineInstance, nowMs: number): number {
  const startMs = phaseStartMs(vmi, (phase) => phase === "Running");
  if (startMs === undefined) return 0;
  const endMs = phaseStartMs(vmi, isFinalPhase);
  return (endMs ?? nowMs) - startMs;
}

/** Whether the VM restarts automatically, and therefore backs off. */
function isRestarted(vm: VirtualMachine, vmi: VirtualMachineInstance | undefined): boolean {
  const strategy = runStrategyOf(vm);
  return (
    strategy === "Always" || (strategy === "RerunOnFailure" && vmi?.status?.phase !== "Succeeded")
  );
}

function countFailure(before: StartFailure | undefined, uid: string, nowMs: number): StartFailure {
  const count = (before?.consecutiveFailCount ?? 0) + 1;
  const backoffMs = Math.min(MAX_BACKOFF_MS, FIRST_BACKOFF_MS * count * count);
  return {
    consecutiveFailCount: count,
    lastFailedVMIUID: uid,
    retryAfterTimestamp: printTime(nowMs + backoffMs),
  };
}

function endedByItself(vmi: VirtualMachineInstance): boolean {
  return isVmiFinal(vmi) && vmi.metadata.deletionTimestamp === undefined;
}

/** Whether the start succeeded: the guest ran long enough, shut down by itself, or its node ended it with a reason. */
function hasStarted(vmi: VirtualMachineInstance, nowMs: number): boolean {
  if (runningMs(vmi, nowMs) >= SUCCESSFUL_RUN_MS) return true;
  const hasRun = phaseStartMs(vmi, (phase) => phase === "Running") !== undefined;
  const { phase, reason } = vmi.status ?? {};
  return hasRun && endedByItself(vmi) && (phase === "Succeeded" || reason !== undefined);
}

/** Returns the new `status.startFailure`. Deleting or restarting a guest soon after its start is not a failure. */
export function trackStartFailure(
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
  return countFailure(before, uid, nowMs);
}

/** Returns the remaining backoff in milliseconds; 0 if the VM may start. */
export function startBackoffMs(failure: StartFailure | undefined, now: string): number {
  const untilMs = toMs(failure?.retryAfterTimestamp);
  return untilMs === undefined ? 0 : Math.max(0, untilMs - (toMs(now) ?? 0));
}

/** Returns the milliseconds until a running guest counts as started; undefined if no failure is recorded. */
export function successInMs(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance | undefined,
  now: string,
): number | undefined {
  if (vm.status?.startFailure === undefined || vmi?.status?.phase !== "Running") return undefined;
  return Math.max(0, SUCCESSFUL_RUN_MS - runningMs(vmi, toMs(now) ?? 0));
}
