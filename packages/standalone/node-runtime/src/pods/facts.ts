// SPDX-License-Identifier: Apache-2.0
import type { Container, Pod } from "@patchbay/api/kubernetes";
import type { ContainerImage, ContainerStatus, SandboxSummary } from "@patchbay/core/interfaces";

/** Sandbox and its IP addresses. A sandbox that is not ready has no addresses. */
export interface SandboxFacts extends SandboxSummary {
  readonly ips: readonly string[];
}

export interface ContainerFacts extends ContainerStatus {
  readonly sandboxId: string;
}

export interface Reason {
  /** For example `ErrImagePull`. */
  readonly reason: string;
  readonly message: string;
}

export type ImageFacts =
  | { readonly kind: "present"; readonly image: ContainerImage }
  | { readonly kind: "absent" }
  | { readonly kind: "pulling" }
  /** The pull failed or is forbidden, and is retried after `pauseMs`. */
  | { readonly kind: "failed"; readonly summary: Reason; readonly pauseMs: number };

export interface PausedStep {
  readonly summary: Reason;
  readonly pauseMs: number;
}

export interface ContainerHealth {
  readonly isStarted: boolean;
  readonly isReady: boolean;
  readonly isUnhealthy: boolean;
}

export const SANDBOX_STEP = "sandbox";
export const VOLUMES_STEP = "volumes";

export function buildContainerStepName(container: string): string {
  return `container ${container}`;
}

export interface PodFacts {
  readonly uid: string;
  /** Undefined if the Pod object was deleted. */
  readonly pod: Pod | undefined;
  /** Sandboxes of the pod, newest first. */
  readonly sandboxes: readonly SandboxFacts[];
  readonly containers: readonly ContainerFacts[];
  /** State of the images that containers and volumes still need, by reference. */
  readonly images: ReadonlyMap<string, ImageFacts>;
  readonly pausedSteps: ReadonlyMap<string, PausedStep>;
  /** Reason why the node rejects the pod; undefined if it admits the pod. */
  readonly rejection: Reason | undefined;
  readonly releasedSandboxIds: ReadonlySet<string>;
  readonly health: ReadonlyMap<string, ContainerHealth>;
  readonly hasLeftovers: boolean;
}

export interface LivePodFacts extends PodFacts {
  readonly pod: Pod;
}

export function findReadySandbox({ sandboxes }: PodFacts): SandboxFacts | undefined {
  return sandboxes.find(({ state }) => state === "READY");
}

export function findLatest(facts: PodFacts, name: string): ContainerFacts | undefined {
  return facts.containers.find((container) => container.name === name);
}

export function findReportedStatus({ pod }: Pick<PodFacts, "pod">, name: string): ReportedStatus {
  const { containerStatuses = [], initContainerStatuses = [] } = pod?.status ?? {};
  return [...containerStatuses, ...initContainerStatuses].find((one) => one.name === name);
}

type ReportedStatus =
  | NonNullable<NonNullable<Pod["status"]>["containerStatuses"]>[number]
  | undefined;

/** Returns whether the container was ever created. The pod's status shows this even after the runtime has removed the container. */
export function wasCreated(facts: PodFacts, name: string): boolean {
  return (
    findLatest(facts, name) !== undefined ||
    findReportedStatus(facts, name)?.containerID !== undefined
  );
}

export function computeNextAttempt(facts: PodFacts, name: string): number {
  if (!wasCreated(facts, name)) return 0;
  const latestAttempt = findLatest(facts, name)?.attempt ?? 0;
  return Math.max(latestAttempt, findReportedStatus(facts, name)?.restartCount ?? 0) + 1;
}

export function listPodContainers({ spec }: Pod): readonly Container[] {
  return [...(spec.initContainers ?? []), ...spec.containers];
}

/** Returns the reason why the pod never starts; undefined if the pod was admitted or has started. */
export function findFinalRejection({ rejection, sandboxes }: PodFacts): Reason | undefined {
  return sandboxes.length > 0 ? undefined : rejection;
}
