// SPDX-License-Identifier: Apache-2.0
import type { Container, Pod } from "@patchbay/api";
import type { ContainerImage, ContainerStatus, SandboxSummary } from "@patchbay/core/interfaces";

/** Addresses are read only while the sandbox is ready. */
export interface SandboxFacts extends SandboxSummary {
  readonly ips: readonly string[];
}

export interface ContainerFacts extends ContainerStatus {
  readonly sandboxId: string;
}

/** Why a step is blocked, as shown in the pod's status. */
export interface Reason {
  /** For example `ErrImagePull`. */
  readonly reason: string;
  readonly message: string;
}

export type ImageFacts =
  | { readonly kind: "present"; readonly image: ContainerImage }
  | { readonly kind: "absent" }
  | { readonly kind: "pulling" }
  /** The pull failed or is forbidden; the next attempt follows after the pause. */
  | { readonly kind: "failed"; readonly shown: Reason; readonly pauseMs: number };

export interface PausedStep {
  readonly shown: Reason;
  readonly pauseMs: number;
}

export interface ContainerHealth {
  readonly isStarted: boolean;
  readonly isReady: boolean;
  readonly isUnhealthy: boolean;
}

export const SANDBOX_STEP = "sandbox";
export const VOLUMES_STEP = "volumes";

export function containerStep(container: string): string {
  return `container ${container}`;
}

export interface PodFacts {
  readonly uid: string;
  /** Undefined when the object was deleted. */
  readonly pod: Pod | undefined;
  /** Newest first. */
  readonly sandboxes: readonly SandboxFacts[];
  readonly containers: readonly ContainerFacts[];
  /** Only images that a container or volume still waits for, by reference. */
  readonly images: ReadonlyMap<string, ImageFacts>;
  readonly paused: ReadonlyMap<string, PausedStep>;
  /** Why the node rejects the pod. */
  readonly rejection: Reason | undefined;
  /** Sandboxes whose network this process has released. */
  readonly released: ReadonlySet<string>;
  /** By container id; contains no containers without probes. */
  readonly health: ReadonlyMap<string, ContainerHealth>;
  readonly hasLeftovers: boolean;
}

export interface LivePodFacts extends PodFacts {
  readonly pod: Pod;
}

export function readySandbox({ sandboxes }: PodFacts): SandboxFacts | undefined {
  return sandboxes.find(({ state }) => state === "READY");
}

export function findLatest(facts: PodFacts, name: string): ContainerFacts | undefined {
  return facts.containers.find((one) => one.name === name);
}

export function statusBefore({ pod }: Pick<PodFacts, "pod">, name: string): StatusBefore {
  const { containerStatuses = [], initContainerStatuses = [] } = pod?.status ?? {};
  return [...containerStatuses, ...initContainerStatuses].find((one) => one.name === name);
}

type StatusBefore =
  | NonNullable<NonNullable<Pod["status"]>["containerStatuses"]>[number]
  | undefined;

/** The runtime may have forgotten the container, but the object's status has not. */
export function wasCreated(facts: PodFacts, name: string): boolean {
  return (
    findLatest(facts, name) !== undefined || statusBefore(facts, name)?.containerID !== undefined
  );
}

export function nextAttempt(facts: PodFacts, name: string): number {
  if (!wasCreated(facts, name)) return 0;
  const latestAttempt = findLatest(facts, name)?.attempt ?? 0;
  return Math.max(latestAttempt, statusBefore(facts, name)?.restartCount ?? 0) + 1;
}

/** Init containers first. */
export function listPodContainers({ spec }: Pod): readonly Container[] {
  return [...(spec.initContainers ?? []), ...spec.containers];
}

/** Undefined when the pod may start, or has started. */
export function finalRejection({ rejection, sandboxes }: PodFacts): Reason | undefined {
  return sandboxes.length > 0 ? undefined : rejection;
}
