// SPDX-License-Identifier: Apache-2.0
import type { Container, Pod } from "@patchbay/api/kubernetes";
import {
  listPodContainers,
  buildContainerStepName,
  findLatest,
  computeNextAttempt,
  findReadySandbox,
  SANDBOX_STEP,
  VOLUMES_STEP,
  type ContainerFacts,
  type LivePodFacts,
  type PodFacts,
} from "./facts.ts";
import {
  findFinalPhase,
  findNextInitContainer,
  shouldRestart,
  toMilliseconds,
  parseRestartDelay,
  computeRestartWaitMs,
} from "./progress.ts";

export interface StartContainer {
  readonly kind: "startContainer";
  readonly container: string;
  readonly attempt: number;
  /** Delay before this start; unset on the first start. */
  readonly delaySeconds?: number;
  /** Id of a container that was created but never started; unset if the container must be created first. */
  readonly createdId?: string;
}

export type PodAction =
  | { readonly kind: "prepareVolumes" }
  | { readonly kind: "runSandbox"; readonly attempt: number }
  | { readonly kind: "pullImage"; readonly reference: string }
  | StartContainer
  /** Begins to stop a container, without waiting for its end. */
  | { readonly kind: "stopContainer"; readonly id: string; readonly graceSeconds: number }
  | { readonly kind: "removeContainer"; readonly id: string }
  | { readonly kind: "stopSandbox"; readonly id: string }
  | { readonly kind: "removeSandbox"; readonly id: string }
  | { readonly kind: "wait"; readonly ms: number }
  | { readonly kind: "removeRemains" }
  | { readonly kind: "deleteObject" };

/** Number of exited runs to retain for each container, besides its latest run, for `kubectl logs --previous`. */
const EXITED_CONTAINERS_RETAINED = 1;
/** Source: default terminationGracePeriodSeconds of Kubernetes. */
const GRACE_SECONDS = 30;
/** Delay after the start of a pod's second sandbox, before a third one replaces it. The delay doubles for each further sandbox. */
const SANDBOX_BACKOFF_MS = 1000;
const SANDBOX_DOUBLINGS_MAX = 8;

function buildWait(ms: number): PodAction {
  return { kind: "wait", ms: Math.ceil(ms) };
}

function isAlive({ state }: ContainerFacts): boolean {
  return state === "RUNNING" || state === "UNKNOWN";
}

function planSandboxRemoval(facts: PodFacts): readonly PodAction[] {
  return facts.sandboxes.flatMap(({ id }): readonly PodAction[] => [
    { kind: "stopSandbox", id },
    { kind: "removeSandbox", id },
  ]);
}

function planRemoval(facts: PodFacts): readonly PodAction[] {
  return [
    ...planSandboxRemoval(facts),
    ...(facts.hasLeftovers || facts.sandboxes.length > 0
      ? [{ kind: "removeRemains" } as const]
      : []),
  ];
}

function planDeletion(facts: LivePodFacts, nowMs: number): readonly PodAction[] {
  const aliveContainers = facts.containers.filter(isAlive);
  // deletionTimestamp is the deadline: the time of the deletion request plus the grace period.
  // oxlint-disable-next-line no-restricted-globals -- converts a given time, reads no clock
  const deadlineMs = Date.parse(facts.pod.metadata.deletionTimestamp ?? "");
  const remainingMs = deadlineMs - nowMs;
  if (aliveContainers.length === 0 || !(remainingMs > 0)) {
    return [...planRemoval(facts), { kind: "deleteObject" }];
  }
  const graceSeconds = Math.max(1, Math.round(remainingMs / 1000));
  return [
    ...aliveContainers.map(({ id }): PodAction => ({ kind: "stopContainer", id, graceSeconds })),
    buildWait(remainingMs),
  ];
}

/** Plans the release of a finished pod's network. Retains the containers, so that their logs remain readable. */
function planNetworkRelease(facts: PodFacts): readonly PodAction[] {
  return facts.sandboxes
    .filter(({ id }) => !facts.releasedSandboxIds.has(id))
    .map(({ id }): PodAction => ({ kind: "stopSandbox", id }));
}

function planSandbox(facts: LivePodFacts, nowMs: number): readonly PodAction[] {
  const [newestSandbox] = facts.sandboxes;
  const pausedStep = facts.pausedSteps.get(VOLUMES_STEP) ?? facts.pausedSteps.get(SANDBOX_STEP);
  if (pausedStep !== undefined) return [buildWait(pausedStep.pauseMs)];
  const pullActions = planVolumeImages(facts);
  if (pullActions !== undefined) return pullActions;
  const attempt = newestSandbox === undefined ? 0 : newestSandbox.metadata.attempt + 1;
  if (newestSandbox !== undefined && newestSandbox.metadata.attempt > 0) {
    const factor = 2 ** Math.min(newestSandbox.metadata.attempt - 1, SANDBOX_DOUBLINGS_MAX);
    const dueMs = toMilliseconds(newestSandbox.createdAt) + SANDBOX_BACKOFF_MS * factor;
    if (dueMs > nowMs) return [buildWait(dueMs - nowMs)];
  }
  return [
    ...planSandboxRemoval(facts),
    { kind: "runSandbox", attempt },
    { kind: "prepareVolumes" },
  ];
}

/** Plans the pull of an image, a wait after a failed pull, or nothing while a pull runs. Returns undefined if the image is present. */
function planImage(facts: LivePodFacts, reference: string): readonly PodAction[] | undefined {
  const image = facts.images.get(reference);
  if (image?.kind === "absent") return [{ kind: "pullImage", reference }];
  if (image?.kind === "failed") return [buildWait(image.pauseMs)];
  return image?.kind === "present" ? undefined : []; // No action while the image is pulled: the end of the pull enqueues the pod.
}

function planVolumeImages(facts: LivePodFacts): readonly PodAction[] | undefined {
  const { volumes = [] } = facts.pod.spec;
  const steps = volumes.flatMap(({ image }) => {
    const pullActions = image === undefined ? undefined : planImage(facts, image.reference);
    return pullActions === undefined ? [] : [pullActions];
  });
  return steps.length === 0 ? undefined : steps.flat();
}

function planStart(
  facts: LivePodFacts,
  container: Container,
  previousRun?: ContainerFacts,
): readonly PodAction[] {
  const pausedStep = facts.pausedSteps.get(buildContainerStepName(container.name));
  if (pausedStep !== undefined) return [buildWait(pausedStep.pauseMs)];
  const pullActions = planImage(facts, container.image);
  if (pullActions !== undefined) return pullActions;
  const attempt = computeNextAttempt(facts, container.name);
  const delay = previousRun === undefined ? {} : { delaySeconds: parseRestartDelay(previousRun) };
  return [{ kind: "startContainer", container: container.name, attempt, ...delay }];
}

function planExited(
  facts: LivePodFacts,
  container: Container,
  options: { readonly latest: ContainerFacts; readonly isInit: boolean; readonly nowMs: number },
): readonly PodAction[] {
  const { latest, isInit, nowMs } = options;
  const exit = { exitCode: latest.exitCode, container: latest };
  if (!shouldRestart(facts.pod, exit, isInit)) return [];
  const waitMs = computeRestartWaitMs(latest, nowMs);
  return waitMs > 0 ? [buildWait(waitMs)] : planStart(facts, container, latest);
}

function findGraceSeconds({ spec }: Pod, container: Container): number {
  const containerGraceSeconds = container.livenessProbe?.terminationGracePeriodSeconds;
  return containerGraceSeconds ?? spec.terminationGracePeriodSeconds ?? GRACE_SECONDS;
}

function planCreated(facts: LivePodFacts, latest: ContainerFacts): readonly PodAction[] {
  const { id: createdId, attempt, name: container } = latest;
  const pausedStep = facts.pausedSteps.get(buildContainerStepName(container));
  return pausedStep === undefined
    ? [{ kind: "startContainer", container, attempt, createdId }]
    : [buildWait(pausedStep.pauseMs)];
}

function planExisting(
  facts: LivePodFacts,
  container: Container,
  options: { readonly latest: ContainerFacts; readonly isInit: boolean; readonly nowMs: number },
): readonly PodAction[] {
  const { latest } = options;
  switch (latest.state) {
    case "CREATED":
      return planCreated(facts, latest);
    case "RUNNING": {
      const graceSeconds = findGraceSeconds(facts.pod, container);
      const isUnhealthy = facts.health.get(latest.id)?.isUnhealthy === true;
      return isUnhealthy ? [{ kind: "stopContainer", id: latest.id, graceSeconds }] : [];
    }
    case "UNKNOWN":
      return [{ kind: "stopContainer", id: latest.id, graceSeconds: 0 }];
    case "EXITED":
      return planExited(facts, container, options);
  }
}

function planContainer(
  facts: LivePodFacts,
  container: Container,
  options: { readonly isInit: boolean; readonly nowMs: number },
): readonly PodAction[] {
  const latest = findLatest(facts, container.name);
  if (latest === undefined) return planStart(facts, container);
  const isCurrent = latest.sandboxId === findReadySandbox(facts)?.id;
  if (isCurrent || isAlive(latest)) return planExisting(facts, container, { ...options, latest });
  // In a new sandbox, a container that has ended waits for its restart delay, but an init container runs again immediately.
  const hasEnded = latest.state === "EXITED" && !options.isInit;
  return hasEnded
    ? planExited(facts, container, { ...options, latest })
    : planStart(facts, container);
}

function planSurplusRemoval(facts: LivePodFacts): readonly PodAction[] {
  const exitedContainers = facts.containers.filter(({ state }) => state === "EXITED");
  return listPodContainers(facts.pod).flatMap(({ name }) => {
    const hasLatestExited = findLatest(facts, name)?.state === "EXITED";
    return exitedContainers
      .filter((container) => container.name === name)
      .slice(EXITED_CONTAINERS_RETAINED + (hasLatestExited ? 1 : 0))
      .map(({ id }): PodAction => ({ kind: "removeContainer", id }));
  });
}

function planContainers(facts: LivePodFacts, nowMs: number): readonly PodAction[] {
  const nextInitContainer = findNextInitContainer(facts);
  if (nextInitContainer !== undefined)
    return planContainer(facts, nextInitContainer, { isInit: true, nowMs });
  return facts.pod.spec.containers.flatMap((container) =>
    planContainer(facts, container, { isInit: false, nowMs }),
  );
}

function addVolumePreparation(
  facts: LivePodFacts,
  steps: readonly PodAction[],
): readonly PodAction[] {
  if (!steps.some(({ kind }) => kind === "startContainer")) return steps;
  const pausedStep = facts.pausedSteps.get(VOLUMES_STEP);
  if (pausedStep !== undefined) {
    return [
      ...steps.filter(({ kind }) => kind !== "startContainer"),
      buildWait(pausedStep.pauseMs),
    ];
  }
  return [{ kind: "prepareVolumes" }, ...steps];
}

function planRun(facts: LivePodFacts, nowMs: number): readonly PodAction[] {
  const sandbox = findReadySandbox(facts);
  const containers = planContainers(facts, nowMs);
  if (sandbox !== undefined)
    return [...addVolumePreparation(facts, containers), ...planSurplusRemoval(facts)];
  const steps = planSandbox(facts, nowMs);
  const createsSandbox = steps.some(({ kind }) => kind === "runSandbox");
  // The containers start in the same reconcile pass as their new sandbox.
  return createsSandbox ? [...steps, ...containers] : steps;
}

export function planPod(facts: PodFacts, nowMs: number): readonly PodAction[] {
  const { pod } = facts;
  if (pod === undefined) return planRemoval(facts);
  const liveFacts: LivePodFacts = { ...facts, pod };
  if (pod.metadata.deletionTimestamp !== undefined) return planDeletion(liveFacts, nowMs);
  return findFinalPhase(liveFacts) === undefined
    ? planRun(liveFacts, nowMs)
    : planNetworkRelease(facts);
}
