// SPDX-License-Identifier: Apache-2.0
import type { Container, Pod } from "@patchbay/api/kubernetes";
import {
  listPodContainers,
  containerStepName,
  findLatest,
  nextAttempt,
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
  restartWaitMs,
} from "./progress.ts";

export interface StartContainer {
  readonly kind: "startContainer";
  readonly container: string;
  readonly attempt: number;
  /** Delay before this start; unset on the first start. */
  readonly delaySeconds?: number;
  /** Id of a container that was created but never started. */
  readonly createdId?: string;
}

export type PodAction =
  | { readonly kind: "prepareVolumes" }
  | { readonly kind: "runSandbox"; readonly attempt: number }
  | { readonly kind: "pullImage"; readonly reference: string }
  | StartContainer
  /** Starts a stop, without waiting for the container's end. */
  | { readonly kind: "stopContainer"; readonly id: string; readonly graceSeconds: number }
  | { readonly kind: "removeContainer"; readonly id: string }
  | { readonly kind: "stopSandbox"; readonly id: string }
  | { readonly kind: "removeSandbox"; readonly id: string }
  | { readonly kind: "wait"; readonly ms: number }
  | { readonly kind: "removeRemains" }
  | { readonly kind: "deleteObject" };

/** Dead containers retained per name besides the latest one, for `kubectl logs --previous`. */
const DEAD_RETAINED = 1;
/** Source: default terminationGracePeriodSeconds of Kubernetes. */
const GRACE_SECONDS = 30;
/** Delay before the third sandbox of a pod. Doubles for each further sandbox. */
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
  const alive = facts.containers.filter(isAlive);
  // Kubernetes sets deletionTimestamp to the time of the request plus the grace period.
  // oxlint-disable-next-line no-restricted-globals -- converts a given time, reads no clock
  const deadlineMs = Date.parse(facts.pod.metadata.deletionTimestamp ?? "");
  const remainingMs = deadlineMs - nowMs;
  if (alive.length === 0 || !(remainingMs > 0)) {
    return [...planRemoval(facts), { kind: "deleteObject" }];
  }
  const graceSeconds = Math.max(1, Math.round(remainingMs / 1000));
  return [
    ...alive.map(({ id }): PodAction => ({ kind: "stopContainer", id, graceSeconds })),
    buildWait(remainingMs),
  ];
}

/** Releases the network of a finished pod. Its containers stay, so that their logs remain readable. */
function planEnd(facts: PodFacts): readonly PodAction[] {
  return facts.sandboxes
    .filter(({ id }) => !facts.releasedSandboxIds.has(id))
    .map(({ id }): PodAction => ({ kind: "stopSandbox", id }));
}

function planSandbox(facts: LivePodFacts, nowMs: number): readonly PodAction[] {
  const [newest] = facts.sandboxes;
  const paused = facts.pausedSteps.get(VOLUMES_STEP) ?? facts.pausedSteps.get(SANDBOX_STEP);
  if (paused !== undefined) return [buildWait(paused.pauseMs)];
  const missing = planVolumeImages(facts);
  if (missing !== undefined) return missing;
  const attempt = newest === undefined ? 0 : newest.metadata.attempt + 1;
  if (newest !== undefined && newest.metadata.attempt > 0) {
    const factor = 2 ** Math.min(newest.metadata.attempt - 1, SANDBOX_DOUBLINGS_MAX);
    const dueMs = toMilliseconds(newest.createdAt) + SANDBOX_BACKOFF_MS * factor;
    if (dueMs > nowMs) return [buildWait(dueMs - nowMs)];
  }
  return [
    ...planSandboxRemoval(facts),
    { kind: "runSandbox", attempt },
    { kind: "prepareVolumes" },
  ];
}

/** Plans the pull of an image; undefined if the image is present. */
function planImage(facts: LivePodFacts, reference: string): readonly PodAction[] | undefined {
  const image = facts.images.get(reference);
  if (image?.kind === "absent") return [{ kind: "pullImage", reference }];
  if (image?.kind === "failed") return [buildWait(image.pauseMs)];
  return image?.kind === "present" ? undefined : []; // a running pull enqueues the pod when it ends
}

/** Plans the pulls of the images of volumes; undefined if all are present. */
function planVolumeImages(facts: LivePodFacts): readonly PodAction[] | undefined {
  const { volumes = [] } = facts.pod.spec;
  const steps = volumes.flatMap(({ image }) => {
    const missing = image === undefined ? undefined : planImage(facts, image.reference);
    return missing === undefined ? [] : [missing];
  });
  return steps.length === 0 ? undefined : steps.flat();
}

function planStart(
  facts: LivePodFacts,
  container: Container,
  after?: ContainerFacts,
): readonly PodAction[] {
  const paused = facts.pausedSteps.get(containerStepName(container.name));
  if (paused !== undefined) return [buildWait(paused.pauseMs)];
  const missing = planImage(facts, container.image);
  if (missing !== undefined) return missing;
  const attempt = nextAttempt(facts, container.name);
  const delay = after === undefined ? {} : { delaySeconds: parseRestartDelay(after) };
  return [{ kind: "startContainer", container: container.name, attempt, ...delay }];
}

function planExited(
  facts: LivePodFacts,
  container: Container,
  at: { readonly latest: ContainerFacts; readonly isInit: boolean; readonly nowMs: number },
): readonly PodAction[] {
  const { latest, isInit, nowMs } = at;
  const exit = { exitCode: latest.exitCode, container: latest };
  if (!shouldRestart(facts.pod, exit, isInit)) return [];
  const waitMs = restartWaitMs(latest, nowMs);
  return waitMs > 0 ? [buildWait(waitMs)] : planStart(facts, container, latest);
}

function findGraceSeconds({ spec }: Pod, container: Container): number {
  const containerGraceSeconds = container.livenessProbe?.terminationGracePeriodSeconds;
  return containerGraceSeconds ?? spec.terminationGracePeriodSeconds ?? GRACE_SECONDS;
}

/** Starts a container that was created only, because the process stopped before its start. */
function planCreated(facts: LivePodFacts, latest: ContainerFacts): readonly PodAction[] {
  const { id: createdId, attempt, name: container } = latest;
  const paused = facts.pausedSteps.get(containerStepName(container));
  return paused === undefined
    ? [{ kind: "startContainer", container, attempt, createdId }]
    : [buildWait(paused.pauseMs)];
}

function planExisting(
  facts: LivePodFacts,
  container: Container,
  at: { readonly latest: ContainerFacts; readonly isInit: boolean; readonly nowMs: number },
): readonly PodAction[] {
  const { latest } = at;
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
      return planExited(facts, container, at);
  }
}

function planContainer(
  facts: LivePodFacts,
  container: Container,
  at: { readonly isInit: boolean; readonly nowMs: number },
): readonly PodAction[] {
  const latest = findLatest(facts, container.name);
  if (latest === undefined) return planStart(facts, container);
  const isCurrent = latest.sandboxId === findReadySandbox(facts)?.id;
  if (isCurrent || isAlive(latest)) return planExisting(facts, container, { ...at, latest });
  // The restart delay applies even to a container of an old sandbox. An init container runs again at once.
  const hasEnded = latest.state === "EXITED" && !at.isInit;
  return hasEnded ? planExited(facts, container, { ...at, latest }) : planStart(facts, container);
}

function planSurplus(facts: LivePodFacts): readonly PodAction[] {
  const dead = facts.containers.filter(({ state }) => state === "EXITED");
  return listPodContainers(facts.pod).flatMap(({ name }) => {
    const isLatestDead = findLatest(facts, name)?.state === "EXITED";
    return dead
      .filter((one) => one.name === name)
      .slice(DEAD_RETAINED + (isLatestDead ? 1 : 0))
      .map(({ id }): PodAction => ({ kind: "removeContainer", id }));
  });
}

function planContainers(facts: LivePodFacts, nowMs: number): readonly PodAction[] {
  const init = findNextInitContainer(facts);
  if (init !== undefined) return planContainer(facts, init, { isInit: true, nowMs });
  return facts.pod.spec.containers.flatMap((container) =>
    planContainer(facts, container, { isInit: false, nowMs }),
  );
}

function addVolumePreparation(
  facts: LivePodFacts,
  steps: readonly PodAction[],
): readonly PodAction[] {
  if (!steps.some(({ kind }) => kind === "startContainer")) return steps;
  const paused = facts.pausedSteps.get(VOLUMES_STEP);
  if (paused !== undefined) {
    return [...steps.filter(({ kind }) => kind !== "startContainer"), buildWait(paused.pauseMs)];
  }
  return [{ kind: "prepareVolumes" }, ...steps];
}

function planRun(facts: LivePodFacts, nowMs: number): readonly PodAction[] {
  const sandbox = findReadySandbox(facts);
  const containers = planContainers(facts, nowMs);
  if (sandbox !== undefined)
    return [...addVolumePreparation(facts, containers), ...planSurplus(facts)];
  const steps = planSandbox(facts, nowMs);
  const createsSandbox = steps.some(({ kind }) => kind === "runSandbox");
  // Also starts the containers of the new sandbox, in which the first init container runs again.
  return createsSandbox ? [...steps, ...containers] : steps;
}

export function planPod(facts: PodFacts, nowMs: number): readonly PodAction[] {
  const { pod } = facts;
  if (pod === undefined) return planRemoval(facts);
  const live: LivePodFacts = { ...facts, pod };
  if (pod.metadata.deletionTimestamp !== undefined) return planDeletion(live, nowMs);
  return findFinalPhase(live) === undefined ? planRun(live, nowMs) : planEnd(facts);
}
