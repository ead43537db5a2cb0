// SPDX-License-Identifier: Apache-2.0
// Builds the status of a pod and its containers from observations.
import type {
  Condition,
  ContainerStatus,
  Container,
  ContainerStateDetails,
  Pod,
} from "@patchbay/api/kubernetes";
import {
  buildContainerStepName,
  findLatest,
  computeNextAttempt,
  SANDBOX_STEP,
  findReportedStatus,
  VOLUMES_STEP,
  wasCreated,
  type ContainerFacts,
  type LivePodFacts,
  type Reason,
  findFinalRejection,
  findReadySandbox,
} from "./facts.ts";
import {
  EXIT_CODE_UNKNOWN,
  findNextInitContainer,
  shouldRestart,
  toMilliseconds,
  parseRestartDelay,
  findFinalPhase,
  findPhase,
} from "./progress.ts";
import { findQosClass } from "../translate/resources.ts";

export interface ConditionFacts {
  readonly previousConditions: readonly Condition[];
  readonly isFinished: boolean;
  readonly hasFailed: boolean;
  readonly isInitialized: boolean;
  readonly containers: readonly ContainerStatus[];
  readonly now: string;
}

const OWN_CONDITIONS: readonly string[] = [
  "Initialized",
  "Ready",
  "ContainersReady",
  "PodScheduled",
];

type Finding = Pick<Condition, "type" | "status" | "reason" | "message">;

function buildReadinessFinding(type: string, facts: ConditionFacts): Finding {
  const unready = facts.containers.filter(({ ready }) => !ready).map(({ name }) => name);
  if (facts.isFinished) {
    return { type, status: "False", reason: facts.hasFailed ? "PodFailed" : "PodCompleted" };
  }
  if (unready.length === 0) return { type, status: "True" };
  const message = `containers with unready status: [${unready.join(" ")}]`;
  return { type, status: "False", reason: "ContainersNotReady", message };
}

function buildInitializedFinding({
  isInitialized,
  isFinished,
  hasFailed,
}: ConditionFacts): Finding {
  if (isInitialized || (isFinished && !hasFailed)) return { type: "Initialized", status: "True" };
  const message = "not all init containers have succeeded";
  return { type: "Initialized", status: "False", reason: "ContainersNotInitialized", message };
}

function buildCondition(finding: Finding, { previousConditions, now }: ConditionFacts): Condition {
  const previous = previousConditions.find(({ type }) => type === finding.type);
  const isSame = previous?.status === finding.status && previous.lastTransitionTime !== undefined;
  const lastTransitionTime = isSame ? previous.lastTransitionTime : now;
  const { type, status, reason, message } = finding;
  return {
    type,
    status,
    lastTransitionTime,
    ...(reason !== undefined && { reason }),
    ...(message !== undefined && { message }),
  };
}

export function buildConditions(facts: ConditionFacts): readonly Condition[] {
  const { previousConditions } = facts;
  const findings: readonly Finding[] = [
    buildInitializedFinding(facts),
    buildReadinessFinding("Ready", facts),
    buildReadinessFinding("ContainersReady", facts),
    { type: "PodScheduled", status: "True" },
  ];
  const ownConditions = findings.map((finding) => buildCondition(finding, facts));
  const retainedConditions = previousConditions.map(
    (previous) => ownConditions.find(({ type }) => type === previous.type) ?? previous,
  );
  return [
    ...retainedConditions,
    ...ownConditions.filter(
      ({ type }) =>
        !previousConditions.some((previousCondition) => previousCondition.type === type),
    ),
  ];
}

export function hasForeignCondition(conditions: readonly Condition[]): boolean {
  return conditions.some(({ type }) => !OWN_CONDITIONS.includes(type));
}

/** Format of times and container ids. `printTime` takes milliseconds since 1970; `runtime` is the scheme of container ids. */
interface StatusFormat {
  readonly printTime: (ms: number) => string;
  readonly runtime: string;
}

function printOptionalTime(nanoseconds: bigint, { printTime }: StatusFormat): string | undefined {
  return nanoseconds > 0n ? printTime(toMilliseconds(nanoseconds)) : undefined;
}

function buildContainerId({ id }: ContainerFacts, { runtime }: StatusFormat): string {
  return `${runtime}://${id}`;
}

function buildTerminatedState(
  endedContainer: ContainerFacts,
  format: StatusFormat,
): ContainerStateDetails {
  const startedAt = printOptionalTime(endedContainer.startedAt, format);
  const finishedAt = printOptionalTime(endedContainer.finishedAt, format);
  return {
    terminated: {
      exitCode: endedContainer.exitCode,
      reason: endedContainer.reason === "" ? "Error" : endedContainer.reason,
      ...(endedContainer.message !== "" && { message: endedContainer.message }),
      ...(startedAt !== undefined && { startedAt }),
      ...(finishedAt !== undefined && { finishedAt }),
      containerID: buildContainerId(endedContainer, format),
    },
  };
}

function findBlocker(facts: LivePodFacts, { name, image }: Container): Reason | undefined {
  for (const step of [VOLUMES_STEP, SANDBOX_STEP, buildContainerStepName(name)]) {
    const pausedStep = facts.pausedSteps.get(step);
    if (pausedStep !== undefined) return pausedStep.summary;
  }
  const volumes = (facts.pod.spec.volumes ?? []).flatMap((one) => one.image?.reference ?? []);
  for (const reference of [...volumes, image]) {
    const imageFacts = facts.images.get(reference);
    if (imageFacts?.kind === "failed") return imageFacts.summary;
  }
  return undefined;
}

function buildWaitingState(facts: LivePodFacts, container: Container): ContainerStateDetails {
  const { reason, message } = findBlocker(facts, container) ?? {};
  if (reason !== undefined && message !== undefined) return { waiting: { reason, message } };
  const isInit = facts.pod.spec.initContainers?.some(({ name }) => name === container.name);
  const waitsForInit = isInit !== true && findNextInitContainer(facts) !== undefined;
  return { waiting: { reason: waitsForInit ? "PodInitializing" : "ContainerCreating" } };
}

function buildLostState(facts: LivePodFacts, name: string): ContainerStateDetails {
  const { state } = findReportedStatus(facts, name) ?? {};
  if (state?.terminated !== undefined) return { terminated: state.terminated };
  return {
    terminated: {
      exitCode: EXIT_CODE_UNKNOWN,
      reason: "ContainerStatusUnknown",
      message: "the container was removed before its exit code was read",
    },
  };
}

function buildBackOffState(
  facts: LivePodFacts,
  container: Container,
  endedContainer: ContainerFacts,
): ContainerStateDetails {
  const blocker = findBlocker(facts, container);
  if (blocker !== undefined) return { waiting: { ...blocker } };
  const seconds = String(parseRestartDelay(endedContainer));
  const message = `it ended with ${String(endedContainer.exitCode)} and is restarted ${seconds} s after its end`;
  return { waiting: { reason: "CrashLoopBackOff", message } };
}

function isRestarting(facts: LivePodFacts, endedContainer: ContainerFacts): boolean {
  const isInit =
    facts.pod.spec.initContainers?.some(({ name }) => name === endedContainer.name) === true;
  const isBeingDeleted = facts.pod.metadata.deletionTimestamp !== undefined;
  const exit = { exitCode: endedContainer.exitCode, container: endedContainer };
  return !isBeingDeleted && shouldRestart(facts.pod, exit, isInit);
}

function findState(
  facts: LivePodFacts,
  container: Container,
  format: StatusFormat,
): ContainerStateDetails {
  const latest = findLatest(facts, container.name);
  if (latest === undefined) {
    return wasCreated(facts, container.name)
      ? buildLostState(facts, container.name)
      : buildWaitingState(facts, container);
  }
  switch (latest.state) {
    case "RUNNING": {
      const startedAt = printOptionalTime(latest.startedAt, format);
      return { running: startedAt === undefined ? {} : { startedAt } };
    }
    case "EXITED": {
      const isWaiting = isRestarting(facts, latest) && parseRestartDelay(latest) > 0;
      return isWaiting
        ? buildBackOffState(facts, container, latest)
        : buildTerminatedState(latest, format);
    }
    case "CREATED":
    case "UNKNOWN":
      return buildWaitingState(facts, container);
  }
}

type ReportedStatus = ContainerStatus | undefined;

function findPreviousState(
  reported: ReportedStatus,
  latest: ContainerFacts,
  format: StatusFormat,
): ContainerStateDetails {
  const terminated =
    reported?.containerID === buildContainerId(latest, format)
      ? undefined
      : reported?.state.terminated;
  return terminated === undefined ? (reported?.lastState ?? {}) : { terminated };
}

/** Returns the state of the container's previous run. If the runtime no longer lists that run, returns the reported state. */
function findLastState(
  facts: LivePodFacts,
  name: string,
  format: StatusFormat,
): ContainerStateDetails {
  const [latest, previous] = facts.containers.filter((one) => one.name === name);
  if (previous !== undefined) return buildTerminatedState(previous, format);
  const reported = findReportedStatus(facts, name);
  return latest === undefined || latest.attempt === 0
    ? (reported?.lastState ?? {})
    : findPreviousState(reported, latest, format);
}

function countRestarts(facts: LivePodFacts, name: string): number {
  const latest = findLatest(facts, name);
  const reported = findReportedStatus(facts, name)?.restartCount ?? 0;
  return Math.max(latest?.attempt ?? Math.min(reported, computeNextAttempt(facts, name)), 0);
}

/** Returns the current and the last state. While a container waits for a restart, its latest exit is its last state. */
function findStates(
  facts: LivePodFacts,
  container: Container,
  format: StatusFormat,
): Pick<ContainerStatus, "state" | "lastState"> {
  const state = findState(facts, container, format);
  const latest = findLatest(facts, container.name);
  const hasEnded = latest?.state === "EXITED" && state.waiting !== undefined;
  const lastState = hasEnded
    ? buildTerminatedState(latest, format)
    : findLastState(facts, container.name, format);
  return { state, ...(lastState.terminated !== undefined && { lastState }) };
}

function findIdentity(
  facts: LivePodFacts,
  name: string,
  format: StatusFormat,
): Pick<ContainerStatus, "imageID" | "containerID"> {
  const latest = findLatest(facts, name);
  if (latest !== undefined)
    return { imageID: latest.imageRef, containerID: buildContainerId(latest, format) };
  const { imageID = "", containerID } = findReportedStatus(facts, name) ?? {};
  return { imageID, ...(containerID !== undefined && { containerID }) };
}

export function buildContainerStatus(
  facts: LivePodFacts,
  container: Container,
  format: StatusFormat,
): ContainerStatus {
  const { name, image } = container;
  const latest = findLatest(facts, name);
  const isRunning = latest?.state === "RUNNING";
  const health = facts.health.get(latest?.id ?? "") ?? { isReady: true, isStarted: true };
  return {
    name,
    image,
    ready: isRunning && health.isReady,
    started: isRunning && health.isStarted,
    restartCount: countRestarts(facts, name),
    ...findIdentity(facts, name, format),
    ...findStates(facts, container, format),
  };
}

export type PodStatus = NonNullable<Pod["status"]>;

interface StatusContext extends StatusFormat {
  readonly hostIp: string;
  readonly now: string;
}

/** Returns the ready sandbox's addresses or, with host network, the node's address. If there are none, returns the reported addresses. */
function findAddresses(facts: LivePodFacts, { hostIp }: StatusContext): Partial<PodStatus> {
  const { spec, status } = facts.pod;
  const sandbox = findReadySandbox(facts);
  const reportedIps = status?.podIPs?.map(({ ip }) => ip) ?? [];
  const sandboxIps = sandbox === undefined || sandbox.ips.length === 0 ? reportedIps : sandbox.ips;
  const ips = spec.hostNetwork === true && sandbox !== undefined ? [hostIp] : sandboxIps;
  const [podIP] = ips;
  return podIP === undefined ? {} : { podIP, podIPs: ips.map((ip) => ({ ip })) };
}

export function buildPodStatus(facts: LivePodFacts, context: StatusContext): PodStatus {
  const { pod } = facts;
  const { spec, status: previousStatus } = pod;
  const { initContainers = [] } = spec;
  const containerStatuses = spec.containers.map((one) => buildContainerStatus(facts, one, context));
  const initContainerStatuses = initContainers.map((one) =>
    buildContainerStatus(facts, one, context),
  );
  const finalPhase = findFinalPhase(facts);
  return {
    phase: findPhase(facts),
    ...findFinalRejection(facts),
    qosClass: findQosClass(pod),
    hostIP: context.hostIp,
    ...findAddresses(facts, context),
    startTime: previousStatus?.startTime ?? context.now,
    conditions: buildConditions({
      previousConditions: previousStatus?.conditions ?? [],
      isFinished: finalPhase !== undefined,
      hasFailed: finalPhase === "Failed",
      isInitialized: findNextInitContainer(facts) === undefined,
      containers: containerStatuses,
      now: context.now,
    }),
    ...(initContainerStatuses.length > 0 && { initContainerStatuses }),
    containerStatuses,
  };
}
