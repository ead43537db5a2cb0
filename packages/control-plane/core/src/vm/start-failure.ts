// SPDX-License-Identifier: Apache-2.0
// Backoff for VMs whose guest ends soon after its start. Source: KubeVirt pkg/virt-controller/watch/vm, startFailure.
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

/** Time after which a running guest counts as started. KubeVirt counts a guest as started as soon as it runs. */
const SUCCESSFUL_RUN_MS = 60_000;
/** Backoff after the first failure. The backoff grows with the square of the number of failures. Source: KubeVirt. */
const FIRST_BACKOFF_MS = 10_000;
/** Maximum backoff. Source: KubeVirt defaultMaxCrashLoopBackoffDelaySeconds (300). */
const MAX_BACKOFF_MS = 300_000;

function findPhaseStartMs(
  vmi: VirtualMachineInstance,
  isPhase: (phase: VmiPhase) => boolean,
): number | undefined {
  const entry = vmi.status?.phaseTransitionTimestamps?.find(({ phase }) => isPhase(phase));
  return toMs(entry?.phaseTransitionTimestamp);
}

/** Returns how long the guest has run, in milliseconds. Returns 0 if the VMI never had the phase Running. */
function computeRunningMs(vmi: VirtualMachineInstance, nowMs: number): number {
  const startMs = findPhaseStartMs(vmi, (phase) => phase === "Running");
  if (startMs === undefined) return 0;
  const endMs = findPhaseStartMs(vmi, isFinalPhase);
  return (endMs ?? nowMs) - startMs;
}

/** Checks whether the run strategy restarts the VM automatically. Only such restarts are delayed by a backoff. */
function isRestarted(vm: VirtualMachine, vmi: VirtualMachineInstance | undefined): boolean {
  const strategy = runStrategyOf(vm);
  return (
    strategy === "Always" || (strategy === "RerunOnFailure" && vmi?.status?.phase !== "Succeeded")
  );
}

function countFailure(
  previousFailure: StartFailure | undefined,
  uid: string,
  nowMs: number,
): StartFailure {
  const count = (previousFailure?.consecutiveFailCount ?? 0) + 1;
  const backoffMs = Math.min(MAX_BACKOFF_MS, FIRST_BACKOFF_MS * count * count);
  return {
    consecutiveFailCount: count,
    lastFailedVMIUID: uid,
    retryAfterTimestamp: printTime(nowMs + backoffMs),
  };
}

function hasEndedByItself(vmi: VirtualMachineInstance): boolean {
  return isVmiFinal(vmi) && vmi.metadata.deletionTimestamp === undefined;
}

/** Returns whether the start succeeded: the guest ran long enough, or it ran and then shut down or failed for a reported reason. */
function hasStarted(vmi: VirtualMachineInstance, nowMs: number): boolean {
  if (computeRunningMs(vmi, nowMs) >= SUCCESSFUL_RUN_MS) return true;
  const hasRun = findPhaseStartMs(vmi, (phase) => phase === "Running") !== undefined;
  const { phase, reason } = vmi.status ?? {};
  return hasRun && hasEndedByItself(vmi) && (phase === "Succeeded" || reason !== undefined);
}

/** Returns the new `status.startFailure`. A guest that is deleted or restarted soon after its start has not failed. */
export function trackStartFailure(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance | undefined,
  now: string,
): StartFailure | undefined {
  const previousFailure = vm.status?.startFailure;
  if (!isRestarted(vm, vmi)) return undefined;
  if (vmi === undefined) return previousFailure;
  const nowMs = toMs(now) ?? 0;
  if (hasStarted(vmi, nowMs)) return undefined;
  const uid = vmi.metadata.uid ?? "";
  if (!hasEndedByItself(vmi) || previousFailure?.lastFailedVMIUID === uid) return previousFailure;
  return countFailure(previousFailure, uid, nowMs);
}

export function computeStartBackoffMs(failure: StartFailure | undefined, now: string): number {
  const untilMs = toMs(failure?.retryAfterTimestamp);
  return untilMs === undefined ? 0 : Math.max(0, untilMs - (toMs(now) ?? 0));
}

/** Returns the milliseconds until a running guest counts as started; undefined if no guest runs or no failure is recorded. */
export function computeSuccessDelayMs(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance | undefined,
  now: string,
): number | undefined {
  if (vm.status?.startFailure === undefined || vmi?.status?.phase !== "Running") return undefined;
  return Math.max(0, SUCCESSFUL_RUN_MS - computeRunningMs(vmi, toMs(now) ?? 0));
}
