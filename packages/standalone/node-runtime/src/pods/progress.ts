// SPDX-License-Identifier: Apache-2.0
// Derives the progress of a pod from observations, for both the plan and the status.
import type { Pod, Container } from "@patchbay/api/kubernetes";
import { RESTART_DELAY_ANNOTATION } from "../translate/labels.ts";
import {
  type ContainerFacts,
  findFinalRejection,
  findLatest,
  findReadySandbox,
  findReportedStatus,
  wasCreated,
  type LivePodFacts,
} from "./facts.ts";

// Bounds of the restart delay. Source: MaxContainerBackOff and initial backoff of the kubelet.
const RESTART_DELAY_MIN_SECONDS = 10;
const RESTART_DELAY_MAX_SECONDS = 300;
/** Run time after which the restart delay is reset. Source: twice MaxContainerBackOff of the kubelet. */
const RESTART_DELAY_RESET_MS = 600_000;

export function toMilliseconds(nanoseconds: bigint): number {
  return Number(nanoseconds / 1_000_000n);
}

interface Exit {
  readonly exitCode: number;
  readonly container?: ContainerFacts;
}

/**
 * Matches the message that containerd reports if its client disconnects during the start of a container.
 * Source: errors of context and os/exec (Go), in StartContainer of the CRI plugin.
 */
const INTERRUPTED_START = /context canceled|failed to start shim: .*signal: killed/s;

/** Returns whether the container's program never ran because node-runtime ended during the start. */
function wasInterrupted({ reason, message, startedAt }: ContainerFacts): boolean {
  return startedAt === 0n && reason === "StartError" && INTERRUPTED_START.test(message);
}

/** Returns whether restartPolicy requires a restart. Repeats each interrupted start; never restarts a successful init container. */
export function shouldRestart({ spec }: Pod, exit: Exit, isInit: boolean): boolean {
  const { exitCode, container } = exit;
  if (container !== undefined && wasInterrupted(container)) return true;
  const policy = spec.restartPolicy ?? "Always";
  if (policy === "Never") return false;
  return exitCode !== 0 || (policy === "Always" && !isInit);
}

/** Returns the restart delay in seconds: 0 after the first run or a long run, otherwise twice the previous delay, from 10 to 300. */
export function parseRestartDelay(endedContainer: ContainerFacts): number {
  const text = endedContainer.annotations[RESTART_DELAY_ANNOTATION];
  const previousSeconds = Number(text ?? "0");
  if (text === undefined || !Number.isFinite(previousSeconds)) return 0;
  const ranMs = toMilliseconds(endedContainer.finishedAt - endedContainer.startedAt);
  if (endedContainer.startedAt > 0n && ranMs >= RESTART_DELAY_RESET_MS) return 0;
  return Math.min(
    Math.max(2 * previousSeconds, RESTART_DELAY_MIN_SECONDS),
    RESTART_DELAY_MAX_SECONDS,
  );
}

export function computeRestartWaitMs(endedContainer: ContainerFacts, nowMs: number): number {
  const dueMs =
    toMilliseconds(endedContainer.finishedAt) + parseRestartDelay(endedContainer) * 1000;
  // A clock that was set back would prolong the wait, so the wait is limited.
  return Math.min(Math.max(dueMs - nowMs, 0), RESTART_DELAY_MAX_SECONDS * 1000);
}

/** Exit code of a container that the runtime no longer knows. Source: ContainerStatusUnknown of the kubelet. */
export const EXIT_CODE_UNKNOWN = 137;

export function findExit(facts: LivePodFacts, { name }: Container): Exit | undefined {
  const container = findLatest(facts, name);
  if (container?.state === "EXITED") return { exitCode: container.exitCode, container };
  if (container !== undefined || !wasCreated(facts, name)) return undefined;
  const { terminated } = findReportedStatus(facts, name)?.state ?? {};
  return { exitCode: terminated?.exitCode ?? EXIT_CODE_UNKNOWN };
}

function hasFinished(facts: LivePodFacts, container: Container, isInit: boolean): boolean {
  const exit = findExit(facts, container);
  return exit !== undefined && !shouldRestart(facts.pod, exit, isInit);
}

function isInitDone(facts: LivePodFacts, container: Container): boolean {
  const latest = findLatest(facts, container.name);
  // The runtime may have removed the init container, so the pod's status decides.
  if (latest === undefined)
    return (
      findReportedStatus(facts, container.name)?.state.terminated?.exitCode === 0 &&
      hasStarted(facts)
    );
  const isCurrent = latest.sandboxId === findReadySandbox(facts)?.id;
  return latest.state === "EXITED" && latest.exitCode === 0 && (isCurrent || hasStarted(facts));
}

function hasStarted(facts: LivePodFacts): boolean {
  const currentSandboxId = findReadySandbox(facts)?.id;
  if (currentSandboxId === undefined) return false;
  return facts.pod.spec.containers.some(
    ({ name }) => findLatest(facts, name)?.sandboxId === currentSandboxId,
  );
}

export function findNextInitContainer(facts: LivePodFacts): Container | undefined {
  return (facts.pod.spec.initContainers ?? []).find((container) => !isInitDone(facts, container));
}

function hasInitFailed(facts: LivePodFacts): boolean {
  const initContainers = facts.pod.spec.initContainers ?? [];
  return initContainers.some((container) => {
    const exit = findExit(facts, container);
    return exit !== undefined && exit.exitCode !== 0 && hasFinished(facts, container, true);
  });
}

function hasLostSandbox(facts: LivePodFacts): boolean {
  const { spec } = facts.pod;
  if (spec.restartPolicy !== "Never" || findReadySandbox(facts) !== undefined) return false;
  return [...(spec.initContainers ?? []), ...spec.containers].some(({ name }) =>
    wasCreated(facts, name),
  );
}

type Phase = NonNullable<NonNullable<Pod["status"]>["phase"]>;

/** Returns the pod's final phase; undefined if the pod is not finished. A reported final phase never changes. */
export function findFinalPhase(facts: LivePodFacts): Phase | undefined {
  const reportedPhase = facts.pod.status?.phase;
  if (reportedPhase === "Succeeded" || reportedPhase === "Failed") return reportedPhase;
  const { containers } = facts.pod.spec;
  if (findFinalRejection(facts) !== undefined) return "Failed";
  if (hasInitFailed(facts)) return "Failed";
  if (containers.every((one) => hasFinished(facts, one, false))) {
    return containers.every((one) => findExit(facts, one)?.exitCode === 0) ? "Succeeded" : "Failed";
  }
  return hasLostSandbox(facts) ? "Failed" : undefined;
}

export function findPhase(facts: LivePodFacts): Phase {
  const finalPhase = findFinalPhase(facts);
  if (finalPhase !== undefined) return finalPhase;
  const hasRun = facts.pod.spec.containers.some(({ name }) => {
    const { state } = findLatest(facts, name) ?? {};
    return state === "RUNNING" || state === "EXITED";
  });
  const isRunning = hasRun || facts.pod.status?.phase === "Running";
  return isRunning && findNextInitContainer(facts) === undefined ? "Running" : "Pending";
}
