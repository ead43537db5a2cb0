// SPDX-License-Identifier: Apache-2.0
// The progress of a pod, which both the plan and the status derive from the facts. Pure.
import type { Pod, Container } from "@patchbay/api";
import { RESTART_DELAY_ANNOTATION } from "../translate/labels.ts";
import {
  type ContainerFacts,
  finalRejection,
  findLatest,
  readySandbox,
  statusBefore,
  wasCreated,
  type LivePodFacts,
} from "./facts.ts";

/** Source: Kubernetes kubelet, MaxContainerBackOff and its first step. */
const FIRST_SECONDS = 10;
const MAX_SECONDS = 300;
/** The back-off is then reset. Source: Kubernetes kubelet, twice MaxContainerBackOff. */
const RECOVERED_MS = 600_000;

export function toMilliseconds(nanoseconds: bigint): number {
  return Number(nanoseconds / 1_000_000n);
}

interface Exit {
  readonly exitCode: number;
  readonly container?: ContainerFacts;
}

/**
 * containerd's message when the caller's connection closed during the start. Source: Go's context, and os/exec
 * CommandContext, in containerd's CRI plugin StartContainer.
 */
const INTERRUPTED_START = /context canceled|failed to start shim: .*signal: killed/s;

/** The program never ran, because this process died. */
function wasInterrupted({ reason, message, startedAt }: ContainerFacts): boolean {
  return startedAt === 0n && reason === "StartError" && INTERRUPTED_START.test(message);
}

/** Init containers exit with 0 only once. */
export function shouldRestart({ spec }: Pod, exit: Exit, isInit: boolean): boolean {
  const { exitCode, container } = exit;
  if (container !== undefined && wasInterrupted(container)) return true;
  const policy = spec.restartPolicy ?? "Always";
  if (policy === "Never") return false;
  return exitCode !== 0 || (policy === "Always" && !isInit);
}

/** Seconds: 0, 10, 20, 40 … 300. An annotation of the container contains the previous delay. */
export function parseRestartDelay(ended: ContainerFacts): number {
  const text = ended.annotations[RESTART_DELAY_ANNOTATION];
  const before = Number(text ?? "0");
  if (text === undefined || !Number.isFinite(before)) return 0;
  const ranMs = toMilliseconds(ended.finishedAt - ended.startedAt);
  if (ended.startedAt > 0n && ranMs >= RECOVERED_MS) return 0;
  return Math.min(Math.max(2 * before, FIRST_SECONDS), MAX_SECONDS);
}

export function restartWaitMs(ended: ContainerFacts, nowMs: number): number {
  const dueMs = toMilliseconds(ended.finishedAt) + parseRestartDelay(ended) * 1000;
  // Bounded, because the clock may have been set back.
  return Math.min(Math.max(dueMs - nowMs, 0), MAX_SECONDS * 1000);
}

/** Source: Kubernetes kubelet, "ContainerStatusUnknown". */
export const EXIT_CODE_UNKNOWN = 137;

export function findExit(facts: LivePodFacts, { name }: Container): Exit | undefined {
  const container = findLatest(facts, name);
  if (container?.state === "EXITED") return { exitCode: container.exitCode, container };
  if (container !== undefined || !wasCreated(facts, name)) return undefined;
  const { terminated } = statusBefore(facts, name)?.state ?? {};
  return { exitCode: terminated?.exitCode ?? EXIT_CODE_UNKNOWN };
}

function hasFinished(facts: LivePodFacts, container: Container, isInit: boolean): boolean {
  const exit = findExit(facts, container);
  return exit !== undefined && !shouldRestart(facts.pod, exit, isInit);
}

function isInitDone(facts: LivePodFacts, container: Container): boolean {
  const latest = findLatest(facts, container.name);
  // The runtime may have removed the init containers once a container runs.
  if (latest === undefined)
    return (
      statusBefore(facts, container.name)?.state.terminated?.exitCode === 0 && hasStarted(facts)
    );
  const isCurrent = latest.sandboxId === readySandbox(facts)?.id;
  return latest.state === "EXITED" && latest.exitCode === 0 && (isCurrent || hasStarted(facts));
}

function hasStarted(facts: LivePodFacts): boolean {
  const current = readySandbox(facts)?.id;
  if (current === undefined) return false;
  return facts.pod.spec.containers.some(
    ({ name }) => findLatest(facts, name)?.sandboxId === current,
  );
}

export function nextInit(facts: LivePodFacts): Container | undefined {
  return (facts.pod.spec.initContainers ?? []).find((container) => !isInitDone(facts, container));
}

function hasInitFailed(facts: LivePodFacts): boolean {
  const inits = facts.pod.spec.initContainers ?? [];
  return inits.some((one) => {
    const exit = findExit(facts, one);
    return exit !== undefined && exit.exitCode !== 0 && hasFinished(facts, one, true);
  });
}

function hasLostSandbox(facts: LivePodFacts): boolean {
  const { spec } = facts.pod;
  if (spec.restartPolicy !== "Never" || readySandbox(facts) !== undefined) return false;
  return [...(spec.initContainers ?? []), ...spec.containers].some(({ name }) =>
    wasCreated(facts, name),
  );
}

type Phase = NonNullable<NonNullable<Pod["status"]>["phase"]>;

/** A reported final phase never changes. */
export function findFinalPhase(facts: LivePodFacts): Phase | undefined {
  const reported = facts.pod.status?.phase;
  if (reported === "Succeeded" || reported === "Failed") return reported;
  const { containers } = facts.pod.spec;
  if (finalRejection(facts) !== undefined) return "Failed";
  if (hasInitFailed(facts)) return "Failed";
  if (containers.every((one) => hasFinished(facts, one, false))) {
    return containers.every((one) => findExit(facts, one)?.exitCode === 0) ? "Succeeded" : "Failed";
  }
  return hasLostSandbox(facts) ? "Failed" : undefined;
}

export function findPhase(facts: LivePodFacts): Phase {
  const final = findFinalPhase(facts);
  if (final !== undefined) return final;
  const hasRun = facts.pod.spec.containers.some(({ name }) => {
    const { state } = findLatest(facts, name) ?? {};
    return state === "RUNNING" || state === "EXITED";
  });
  const isRunning = hasRun || facts.pod.status?.phase === "Running";
  return isRunning && nextInit(facts) === undefined ? "Running" : "Pending";
}
