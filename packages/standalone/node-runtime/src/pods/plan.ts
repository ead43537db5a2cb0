// SPDX-License-Identifier: Apache-2.0
import type { Container, Pod } from "@patchbay/api";
import {
  listPodContainers,
  containerStep,
  findLatest,
  nextAttempt,
  readySandbox,
  SANDBOX_STEP,
  VOLUMES_STEP,
  type ContainerFacts,
  type LivePodFacts,
  type PodFacts,
} from "./facts.ts";
import {
  findFinalPhase,
  nextInit,
  shouldRestart,
  toMilliseconds,
  parseRestartDelay,
  restartWaitMs,
} from "./progress.ts";

export interface StartContainer {
  readonly kind: "startContainer";
  readonly container: string;
  readonly attempt: number;
  /** Back-off before this start, seconds; unset on the first start. */
  readonly delaySeconds?: number;
  /** Id of a container that was created but never started. */
  readonly createdId?: string;
}

export type PodAction =
  | { readonly kind: "prepareVolumes" }
  | { readonly kind: "runSandbox"; readonly attempt: number }
  | { readonly kind: "pullImage"; readonly reference: string }
  | StartContainer
  /** Does not wait for the container's end. */
  | { readonly kind: "stopContainer"; readonly id: string; readonly graceSeconds: number }
  | { readonly kind: "removeContainer"; readonly id: string }
  | { readonly kind: "stopSandbox"; readonly id: string }
  | { readonly kind: "removeSandbox"; readonly id: string }
  | { readonly kind: "wait"; readonly ms: number }
  | { readonly kind: "removeRemains" }
  | { readonly kind: "deleteObject" };

/** Dead containers retained per name besides the latest one, for `kubectl logs --previous`. */
const DEAD_RETAINED = 1;
/** Source: Kubernetes, default terminationGracePeriodSeconds. */
const GRACE_SECONDS = 30;
/** Pause before the third sandbox in a row, milliseconds; doubles with each further one. */
const SANDBOX_BACKOFF_MS = 1000;
const SANDBOX_DOUBLINGS_MAX = 8;

function wait(ms: number): PodAction {
  return { kind: "wait", ms: Math.ceil(ms) };
}

function isAlive({ state }: ContainerFacts): boolean {
  return state === "RUNNING" || state === "UNKNOWN";
}

function removeSandboxes(facts: PodFacts): readonly PodAction[] {
  return facts.sandboxes.flatMap(({ id }): readonly PodAction[] => [
    { kind: "stopSandbox", id },
    { kind: "removeSandbox", id },
  ]);
}

function removeAll(facts: PodFacts): readonly PodAction[] {
  return [
    ...removeSandboxes(facts),
    ...(facts.hasLeftovers || facts.sandboxes.length > 0
      ? [{ kind: "removeRemains" } as const]
      : []),
  ];
}

function planDeletion(facts: LivePodFacts, nowMs: number): readonly PodAction[] {
  const alive = facts.containers.filter(isAlive);
  // Kubernetes sets it to the time of the request plus the grace period.
  // oxlint-disable-next-line no-restricted-globals -- converts a given time, reads no clock
  const deadlineMs = Date.parse(facts.pod.metadata.deletionTimestamp ?? "");
  const remainingMs = deadlineMs - nowMs;
  if (alive.length === 0 || !(remainingMs > 0)) {
    return [...removeAll(facts), { kind: "deleteObject" }];
  }
  const graceSeconds = Math.max(1, Math.round(remainingMs / 1000));
  return [
    ...alive.map(({ id }): PodAction => ({ kind: "stopContainer", id, graceSeconds })),
    wait(remainingMs),
  ];
}

/** The containers remain, so that their logs stay readable. */
function planEnd(facts: PodFacts): readonly PodAction[] {
  return facts.sandboxes
    .filter(({ id }) => !facts.released.has(id))
    .map(({ id }): PodAction => ({ kind: "stopSandbox", id }));
}

function planSandbox(facts: LivePodFacts, nowMs: number): readonly PodAction[] {
  const [newest] = facts.sandboxes;
  const paused = facts.paused.get(VOLUMES_STEP) ?? facts.paused.get(SANDBOX_STEP);
  if (paused !== undefined) return [wait(paused.pauseMs)];
  const missing = planVolumeImages(facts);
  if (missing !== undefined) return missing;
  const attempt = newest === undefined ? 0 : newest.metadata.attempt + 1;
  if (newest !== undefined && newest.metadata.attempt > 0) {
    const factor = 2 ** Math.min(newest.metadata.attempt - 1, SANDBOX_DOUBLINGS_MAX);
    const dueMs = toMilliseconds(newest.createdAt) + SANDBOX_BACKOFF_MS * factor;
    if (dueMs > nowMs) return [wait(dueMs - nowMs)];
  }
  return [...removeSandboxes(facts), { kind: "runSandbox", attempt }, { kind: "prepareVolumes" }];
}

/** Undefined when the image is present. */
function planImage(facts: LivePodFacts, reference: string): readonly PodAction[] | undefined {
  const image = facts.images.get(reference);
  if (image?.kind === "absent") return [{ kind: "pullImage", reference }];
  if (image?.kind === "failed") return [wait(image.pauseMs)];
  return image?.kind === "present" ? undefined : []; // a running pull wakes the pod when it ends
}

/** Undefined when all images are present. */
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
  const paused = facts.paused.get(containerStep(container.name));
  if (paused !== undefined) return [wait(paused.pauseMs)];
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
  return waitMs > 0 ? [wait(waitMs)] : planStart(facts, container, latest);
}

function findGraceSeconds({ spec }: Pod, container: Container): number {
  const containerGraceSeconds = container.livenessProbe?.terminationGracePeriodSeconds;
  return containerGraceSeconds ?? spec.terminationGracePeriodSeconds ?? GRACE_SECONDS;
}

/** This process may have stopped between creation and start. */
function planCreated(facts: LivePodFacts, latest: ContainerFacts): readonly PodAction[] {
  const { id: createdId, attempt, name: container } = latest;
  const paused = facts.paused.get(containerStep(container));
  return paused === undefined
    ? [{ kind: "startContainer", container, attempt, createdId }]
    : [wait(paused.pauseMs)];
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
  const isCurrent = latest.sandboxId === readySandbox(facts)?.id;
  if (isCurrent || isAlive(latest)) return planExisting(facts, container, { ...at, latest });
  // A container that exited with an old sandbox still observes its restart delay. An init container runs again at once.
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
  const init = nextInit(facts);
  if (init !== undefined) return planContainer(facts, init, { isInit: true, nowMs });
  return facts.pod.spec.containers.flatMap((container) =>
    planContainer(facts, container, { isInit: false, nowMs }),
  );
}

function withVolumes(facts: LivePodFacts, steps: readonly PodAction[]): readonly PodAction[] {
  if (!steps.some(({ kind }) => kind === "startContainer")) return steps;
  const paused = facts.paused.get(VOLUMES_STEP);
  if (paused !== undefined) {
    return [...steps.filter(({ kind }) => kind !== "startContainer"), wait(paused.pauseMs)];
  }
  return [{ kind: "prepareVolumes" }, ...steps];
}

function planRun(facts: LivePodFacts, nowMs: number): readonly PodAction[] {
  const sandbox = readySandbox(facts);
  const containers = planContainers(facts, nowMs);
  if (sandbox !== undefined) return [...withVolumes(facts, containers), ...planSurplus(facts)];
  const steps = planSandbox(facts, nowMs);
  const createsSandbox = steps.some(({ kind }) => kind === "runSandbox");
  // Containers of the sandbox that this plan creates: the first init container runs again.
  return createsSandbox ? [...steps, ...containers] : steps;
}

export function planPod(facts: PodFacts, nowMs: number): readonly PodAction[] {
  const { pod } = facts;
  if (pod === undefined) return removeAll(facts);
  const live: LivePodFacts = { ...facts, pod };
  if (pod.metadata.deletionTimestamp !== undefined) return planDeletion(live, nowMs);
  return findFinalPhase(live) === undefined ? planRun(live, nowMs) : planEnd(facts);
}
