// SPDX-License-Identifier: Apache-2.0
// What does the status say of one container? From facts; pure.
import type { Container, ContainerStateDetails, ContainerStatus } from "@patchbay/api";
import {
  containerStep,
  latestOf,
  nextAttempt,
  SANDBOX_STEP,
  statusBefore,
  VOLUMES_STEP,
  wasMade,
  type ContainerFacts,
  type LivePodFacts,
  type Reason,
} from "../pods/facts.ts";
import { EXIT_CODE_UNKNOWN, nextInit } from "../pods/progress.ts";
import { isToRestart, millisecondsOf, restartDelayOf } from "../pods/containers/restart.ts";

/** How times are written, RFC 3339 of milliseconds since 1970; and the runtime's name in ids. */
export interface Words {
  readonly printTime: (ms: number) => string;
  readonly runtime: string;
}

function timeOf(nanoseconds: bigint, { printTime }: Words): string | undefined {
  return nanoseconds > 0n ? printTime(millisecondsOf(nanoseconds)) : undefined;
}

function idOf({ id }: ContainerFacts, { runtime }: Words): string {
  return `${runtime}://${id}`;
}

/** How a container ended, as `state` or `lastState` says it. */
function terminatedOf(ended: ContainerFacts, words: Words): ContainerStateDetails {
  const startedAt = timeOf(ended.startedAt, words);
  const finishedAt = timeOf(ended.finishedAt, words);
  return {
    terminated: {
      exitCode: ended.exitCode,
      reason: ended.reason === "" ? "Error" : ended.reason,
      ...(ended.message !== "" && { message: ended.message }),
      ...(startedAt !== undefined && { startedAt }),
      ...(finishedAt !== undefined && { finishedAt }),
      containerID: idOf(ended, words),
    },
  };
}

/** What holds up a container that is not made yet. */
function waitingReason(facts: LivePodFacts, { name, image }: Container): Reason | undefined {
  for (const step of [VOLUMES_STEP, SANDBOX_STEP, containerStep(name)]) {
    const held = facts.held.get(step);
    if (held !== undefined) return held.shown;
  }
  const volumes = (facts.pod.spec.volumes ?? []).flatMap((one) => one.image?.reference ?? []);
  for (const reference of [...volumes, image]) {
    const found = facts.images.get(reference);
    if (found?.kind === "failed") return found.shown;
  }
  return undefined;
}

function waitingOf(facts: LivePodFacts, container: Container): ContainerStateDetails {
  const { reason, message } = waitingReason(facts, container) ?? {};
  if (reason !== undefined && message !== undefined) return { waiting: { reason, message } };
  const isInit = facts.pod.spec.initContainers?.some(({ name }) => name === container.name);
  const waitsForInit = isInit !== true && nextInit(facts) !== undefined;
  return { waiting: { reason: waitsForInit ? "PodInitializing" : "ContainerCreating" } };
}

/** The runtime has forgotten it, and nobody saw how it ended. */
function lostState(facts: LivePodFacts, name: string): ContainerStateDetails {
  const { state } = statusBefore(facts, name) ?? {};
  if (state?.terminated !== undefined) return { terminated: state.terminated };
  return {
    terminated: {
      exitCode: EXIT_CODE_UNKNOWN,
      reason: "ContainerStatusUnknown",
      message: "the container was gone before its exit code was read",
    },
  };
}

/** It ended, is to run again, and waits for that. */
function backOffState(
  facts: LivePodFacts,
  container: Container,
  ended: ContainerFacts,
): ContainerStateDetails {
  const held = waitingReason(facts, container);
  if (held !== undefined) return { waiting: { ...held } };
  const seconds = String(restartDelayOf(ended));
  const message = `it ended with ${String(ended.exitCode)} and is started again ${seconds} s after that`;
  return { waiting: { reason: "CrashLoopBackOff", message } };
}

function isRestarting(facts: LivePodFacts, ended: ContainerFacts): boolean {
  const isInit = facts.pod.spec.initContainers?.some(({ name }) => name === ended.name) === true;
  const isLeaving = facts.pod.metadata.deletionTimestamp !== undefined;
  const end = { exitCode: ended.exitCode, container: ended };
  return !isLeaving && isToRestart(facts.pod, end, isInit);
}

function stateOf(facts: LivePodFacts, container: Container, words: Words): ContainerStateDetails {
  const latest = latestOf(facts, container.name);
  if (latest === undefined) {
    return wasMade(facts, container.name)
      ? lostState(facts, container.name)
      : waitingOf(facts, container);
  }
  switch (latest.state) {
    case "RUNNING": {
      const startedAt = timeOf(latest.startedAt, words);
      return { running: startedAt === undefined ? {} : { startedAt } };
    }
    case "EXITED": {
      const waits = isRestarting(facts, latest) && restartDelayOf(latest) > 0;
      return waits ? backOffState(facts, container, latest) : terminatedOf(latest, words);
    }
    case "CREATED":
    case "UNKNOWN":
      return waitingOf(facts, container);
  }
}

type Told = ContainerStatus | undefined;

/** What was told of the run before `latest`. */
function toldBefore(told: Told, latest: ContainerFacts, words: Words): ContainerStateDetails {
  const terminated = told?.containerID === idOf(latest, words) ? undefined : told?.state.terminated;
  return terminated === undefined ? (told?.lastState ?? {}) : { terminated };
}

/** How the run before this one ended: what the runtime still has of it, else what was told before. */
function lastStateOf(facts: LivePodFacts, name: string, words: Words): ContainerStateDetails {
  const [latest, before] = facts.containers.filter((one) => one.name === name);
  if (before !== undefined) return terminatedOf(before, words);
  const told = statusBefore(facts, name);
  return latest === undefined || latest.attempt === 0
    ? (told?.lastState ?? {})
    : toldBefore(told, latest, words);
}

function restartsOf(facts: LivePodFacts, name: string): number {
  const latest = latestOf(facts, name);
  const told = statusBefore(facts, name)?.restartCount ?? 0;
  return Math.max(latest?.attempt ?? Math.min(told, nextAttempt(facts, name)), 0);
}

/** The state, and as the last one what ended when the state only says that it waits. */
function statesOf(
  facts: LivePodFacts,
  container: Container,
  words: Words,
): Pick<ContainerStatus, "state" | "lastState"> {
  const state = stateOf(facts, container, words);
  const latest = latestOf(facts, container.name);
  const hasEnded = latest?.state === "EXITED" && state.waiting !== undefined;
  const lastState = hasEnded
    ? terminatedOf(latest, words)
    : lastStateOf(facts, container.name, words);
  return { state, ...(lastState.terminated !== undefined && { lastState }) };
}

/** Which container and image it is, as last seen. */
function identityOf(
  facts: LivePodFacts,
  name: string,
  words: Words,
): Pick<ContainerStatus, "imageID" | "containerID"> {
  const latest = latestOf(facts, name);
  if (latest !== undefined) return { imageID: latest.imageRef, containerID: idOf(latest, words) };
  const { imageID = "", containerID } = statusBefore(facts, name) ?? {};
  return { imageID, ...(containerID !== undefined && { containerID }) };
}

/** The status of one container. */
export function containerStatusOf(
  facts: LivePodFacts,
  container: Container,
  words: Words,
): ContainerStatus {
  const { name, image } = container;
  const latest = latestOf(facts, name);
  const isRunning = latest?.state === "RUNNING";
  const health = facts.health.get(latest?.id ?? "") ?? { isReady: true, isStarted: true };
  return {
    name,
    image,
    ready: isRunning && health.isReady,
    started: isRunning && health.isStarted,
    restartCount: restartsOf(facts, name),
    ...identityOf(facts, name, words),
    ...statesOf(facts, container, words),
  };
}
