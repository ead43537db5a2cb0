// SPDX-License-Identifier: Apache-2.0
// What is to be done for one pod? Pure: from what the runtime has to ordered steps.
import type { Container, Pod } from "@patchbay/api";
import {
  containersOf,
  containerStep,
  latestOf,
  nextAttempt,
  readySandbox,
  SANDBOX_STEP,
  VOLUMES_STEP,
  type ContainerFacts,
  type LivePodFacts,
  type PodFacts,
} from "./facts.ts";
import { finalPhaseOf, nextInit } from "./progress.ts";
import {
  isToRestart,
  millisecondsOf,
  restartDelayOf,
  restartWaitMs,
} from "./containers/restart.ts";

/** A container that is made, or goes on where it was left. */
export interface StartContainer {
  readonly kind: "startContainer";
  readonly container: string;
  readonly attempt: number;
  /** How long this start was put off, seconds; absent: it is the first. */
  readonly delaySeconds?: number;
  /** One that was made and never started. */
  readonly createdId?: string;
}

/** One step; repeated, it does no harm. */
export type PodAction =
  | { readonly kind: "prepareVolumes" }
  | { readonly kind: "runSandbox"; readonly attempt: number }
  | { readonly kind: "pullImage"; readonly reference: string }
  | StartContainer
  /** Asks it to end, and ends it after the grace; does not wait for that. */
  | { readonly kind: "stopContainer"; readonly id: string; readonly graceSeconds: number }
  | { readonly kind: "removeContainer"; readonly id: string }
  /** Ends what is in it, and gives its network back. */
  | { readonly kind: "stopSandbox"; readonly id: string }
  | { readonly kind: "removeSandbox"; readonly id: string }
  /** Look again. */
  | { readonly kind: "wait"; readonly ms: number }
  /** Removes volumes, logs and what else is on this machine. */
  | { readonly kind: "removeRemains" }
  /** Takes the object away, now that nothing is left. */
  | { readonly kind: "deleteObject" };

/** Dead containers of one name that are kept, beside the one that counts: what `--previous` shows. */
const DEAD_KEPT = 1;
/** Source: Kubernetes, default terminationGracePeriodSeconds. */
const GRACE_SECONDS = 30;
/** Sandboxes that die at once are made ever later: so long after the second, doubled, milliseconds. */
const SANDBOX_PAUSE_MS = 1000;
const SANDBOX_PAUSES_MAX = 8;

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
    ...(facts.hasRemains || facts.sandboxes.length > 0 ? [{ kind: "removeRemains" } as const] : []),
  ];
}

function planDeletion(facts: LivePodFacts, nowMs: number): readonly PodAction[] {
  const alive = facts.containers.filter(isAlive);
  // Kubernetes sets it to the time of the request plus the grace period.
  // oxlint-disable-next-line no-restricted-globals -- converts a given time, reads no clock
  const deadlineMs = Date.parse(facts.pod.metadata.deletionTimestamp ?? "");
  const leftMs = deadlineMs - nowMs;
  if (alive.length === 0 || !(leftMs > 0)) {
    return [...removeAll(facts), { kind: "deleteObject" }];
  }
  const graceSeconds = Math.max(1, Math.round(leftMs / 1000));
  return [
    ...alive.map(({ id }): PodAction => ({ kind: "stopContainer", id, graceSeconds })),
    wait(leftMs),
  ];
}

/** A pod that is over keeps its containers, whose logs are asked for, and gives back its network. */
function planEnd(facts: PodFacts): readonly PodAction[] {
  return facts.sandboxes
    .filter(({ id }) => !facts.released.has(id))
    .map(({ id }): PodAction => ({ kind: "stopSandbox", id }));
}

function planSandbox(facts: LivePodFacts, nowMs: number): readonly PodAction[] {
  const [newest] = facts.sandboxes;
  const held = facts.held.get(VOLUMES_STEP) ?? facts.held.get(SANDBOX_STEP);
  if (held !== undefined) return [wait(held.pauseMs)];
  const missing = planVolumeImages(facts);
  if (missing !== undefined) return missing;
  const attempt = newest === undefined ? 0 : newest.metadata.attempt + 1;
  if (newest !== undefined && newest.metadata.attempt > 0) {
    const factor = 2 ** Math.min(newest.metadata.attempt - 1, SANDBOX_PAUSES_MAX);
    const dueMs = millisecondsOf(newest.createdAt) + SANDBOX_PAUSE_MS * factor;
    if (dueMs > nowMs) return [wait(dueMs - nowMs)];
  }
  return [...removeSandboxes(facts), { kind: "runSandbox", attempt }, { kind: "prepareVolumes" }];
}

/** What is done for want of an image; undefined: it is there. */
function planImage(facts: LivePodFacts, reference: string): readonly PodAction[] | undefined {
  const image = facts.images.get(reference);
  if (image?.kind === "absent") return [{ kind: "pullImage", reference }];
  if (image?.kind === "failed") return [wait(image.pauseMs)];
  return image?.kind === "present" ? undefined : []; // its end wakes
}

/** What is done for want of the images that are mounted; none: they are there. */
function planVolumeImages(facts: LivePodFacts): readonly PodAction[] | undefined {
  const { volumes = [] } = facts.pod.spec;
  const steps = volumes.flatMap(({ image }) => {
    const missing = image === undefined ? undefined : planImage(facts, image.reference);
    return missing === undefined ? [] : [missing];
  });
  return steps.length === 0 ? undefined : steps.flat();
}

/** Makes the container, or has its image fetched first. */
function startNow(
  facts: LivePodFacts,
  container: Container,
  after?: ContainerFacts,
): readonly PodAction[] {
  const held = facts.held.get(containerStep(container.name));
  if (held !== undefined) return [wait(held.pauseMs)];
  const missing = planImage(facts, container.image);
  if (missing !== undefined) return missing;
  const attempt = nextAttempt(facts, container.name);
  const delay = after === undefined ? {} : { delaySeconds: restartDelayOf(after) };
  return [{ kind: "startContainer", container: container.name, attempt, ...delay }];
}

function planEnded(
  facts: LivePodFacts,
  container: Container,
  at: { readonly latest: ContainerFacts; readonly isInit: boolean; readonly nowMs: number },
): readonly PodAction[] {
  const { latest, isInit, nowMs } = at;
  const end = { exitCode: latest.exitCode, container: latest };
  if (!isToRestart(facts.pod, end, isInit)) return [];
  const waitMs = restartWaitMs(latest, nowMs);
  return waitMs > 0 ? [wait(waitMs)] : startNow(facts, container, latest);
}

function graceOf({ spec }: Pod, container: Container): number {
  const own = container.livenessProbe?.terminationGracePeriodSeconds;
  return own ?? spec.terminationGracePeriodSeconds ?? GRACE_SECONDS;
}

/** One that was made and never started, for example because this process died in between. */
function planCreated(facts: LivePodFacts, latest: ContainerFacts): readonly PodAction[] {
  const { id: createdId, attempt, name: container } = latest;
  const held = facts.held.get(containerStep(container));
  return held === undefined
    ? [{ kind: "startContainer", container, attempt, createdId }]
    : [wait(held.pauseMs)];
}

/** A container of the current sandbox, or one that still runs in another. */
function planThere(
  facts: LivePodFacts,
  container: Container,
  at: { readonly latest: ContainerFacts; readonly isInit: boolean; readonly nowMs: number },
): readonly PodAction[] {
  const { latest } = at;
  switch (latest.state) {
    case "CREATED":
      return planCreated(facts, latest);
    case "RUNNING": {
      const graceSeconds = graceOf(facts.pod, container);
      const isUnhealthy = facts.health.get(latest.id)?.isUnhealthy === true;
      return isUnhealthy ? [{ kind: "stopContainer", id: latest.id, graceSeconds }] : [];
    }
    case "UNKNOWN":
      return [{ kind: "stopContainer", id: latest.id, graceSeconds: 0 }];
    case "EXITED":
      return planEnded(facts, container, at);
  }
}

function planContainer(
  facts: LivePodFacts,
  container: Container,
  at: { readonly isInit: boolean; readonly nowMs: number },
): readonly PodAction[] {
  const latest = latestOf(facts, container.name);
  if (latest === undefined) return startNow(facts, container);
  const isCurrent = latest.sandboxId === readySandbox(facts)?.id;
  if (isCurrent || isAlive(latest)) return planThere(facts, container, { ...at, latest });
  // What ended in an earlier sandbox has ended with it, and still waits for its turn; an init container begins anew.
  const hasEnded = latest.state === "EXITED" && !at.isInit;
  return hasEnded ? planEnded(facts, container, { ...at, latest }) : startNow(facts, container);
}

/** What died before the last but one of its name. */
function planSurplus(facts: LivePodFacts): readonly PodAction[] {
  const dead = facts.containers.filter(({ state }) => state === "EXITED");
  return containersOf(facts.pod).flatMap(({ name }) => {
    const isLatestDead = latestOf(facts, name)?.state === "EXITED";
    return dead
      .filter((one) => one.name === name)
      .slice(DEAD_KEPT + (isLatestDead ? 1 : 0))
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

/** What is in no sandbox that runs is not asked to be started: the volumes come first. */
function withVolumes(facts: LivePodFacts, steps: readonly PodAction[]): readonly PodAction[] {
  if (!steps.some(({ kind }) => kind === "startContainer")) return steps;
  const held = facts.held.get(VOLUMES_STEP);
  if (held !== undefined) {
    return [...steps.filter(({ kind }) => kind !== "startContainer"), wait(held.pauseMs)];
  }
  return [{ kind: "prepareVolumes" }, ...steps];
}

function planRun(facts: LivePodFacts, nowMs: number): readonly PodAction[] {
  const sandbox = readySandbox(facts);
  const containers = planContainers(facts, nowMs);
  if (sandbox !== undefined) return [...withVolumes(facts, containers), ...planSurplus(facts)];
  const steps = planSandbox(facts, nowMs);
  const isMade = steps.some(({ kind }) => kind === "runSandbox");
  // In the sandbox that is about to be: an init container begins anew, and so it is the first's turn.
  return isMade ? [...steps, ...containers] : steps;
}

/** The steps in their order; none at rest. */
export function planPod(facts: PodFacts, nowMs: number): readonly PodAction[] {
  const { pod } = facts;
  if (pod === undefined) return removeAll(facts);
  const live: LivePodFacts = { ...facts, pod };
  if (pod.metadata.deletionTimestamp !== undefined) return planDeletion(live, nowMs);
  return finalPhaseOf(live) === undefined ? planRun(live, nowMs) : planEnd(facts);
}
