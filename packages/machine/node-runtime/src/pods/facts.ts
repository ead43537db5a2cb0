// SPDX-License-Identifier: Apache-2.0
// What is known of one pod: its object, and what the container runtime has of it.
import type { Container, Pod } from "@patchbay/api";
import type { ContainerImage, ContainerStatus, SandboxSummary } from "@patchbay/core/ports";

/** A sandbox; only the newest one's addresses are asked for. */
export interface SandboxFacts extends SandboxSummary {
  readonly ips: readonly string[];
}

/** A container, of whichever of the pod's sandboxes. */
export interface ContainerFacts extends ContainerStatus {
  readonly sandboxId: string;
}

/** Why something is not done now, in words that a pod's status shows. */
export interface Reason {
  /** For example `ErrImagePull`. */
  readonly reason: string;
  readonly message: string;
}

/** Whether an image is there. */
export type ImageFacts =
  | { readonly kind: "present"; readonly image: ContainerImage }
  | { readonly kind: "absent" }
  | { readonly kind: "pulling" }
  /** It could not be pulled, or may not be, and is not tried again before the pause is over. */
  | { readonly kind: "failed"; readonly shown: Reason; readonly pauseMs: number };

/** A step that failed and is left alone for now. */
export interface HeldStep {
  readonly shown: Reason;
  readonly pauseMs: number;
}

/** What the probes of a running container say. */
export interface ContainerHealth {
  readonly isStarted: boolean;
  readonly isReady: boolean;
  /** It is to be ended and started again. */
  readonly isUnhealthy: boolean;
}

/** Names of the steps that can fail. */
export const SANDBOX_STEP = "sandbox";
/** Names of the steps that can fail. */
export const VOLUMES_STEP = "volumes";

/** Name of the step that makes and starts a container. */
export function containerStep(container: string): string {
  return `container ${container}`;
}

/** Facts of one uid. */
export interface PodFacts {
  readonly uid: string;
  /** The object, or undefined when it is gone. */
  readonly pod: Pod | undefined;
  /** Newest first. */
  readonly sandboxes: readonly SandboxFacts[];
  /** Newest first. */
  readonly containers: readonly ContainerFacts[];
  /** By reference; of the containers that do not run. */
  readonly images: ReadonlyMap<string, ImageFacts>;
  readonly held: ReadonlyMap<string, HeldStep>;
  /** Why the pod may not begin here. */
  readonly refusal: Reason | undefined;
  /** Sandboxes that were stopped since this process began: their network has been given back. */
  readonly released: ReadonlySet<string>;
  /** By id of the container; absent: it has no probes. */
  readonly health: ReadonlyMap<string, ContainerHealth>;
  /** Whether directories of the pod are on this machine. */
  readonly hasRemains: boolean;
}

/** Facts of a pod whose object is there. */
export interface LivePodFacts extends PodFacts {
  readonly pod: Pod;
}

/** The sandbox that runs; undefined: there is none. */
export function readySandbox({ sandboxes }: PodFacts): SandboxFacts | undefined {
  return sandboxes.find(({ state }) => state === "READY");
}

/** The newest container of that name. */
export function latestOf(facts: PodFacts, name: string): ContainerFacts | undefined {
  return facts.containers.find((one) => one.name === name);
}

/** What the object's status says of a container, init container or not. */
export function statusBefore({ pod }: Pick<PodFacts, "pod">, name: string): StatusBefore {
  const { containerStatuses = [], initContainerStatuses = [] } = pod?.status ?? {};
  return [...containerStatuses, ...initContainerStatuses].find((one) => one.name === name);
}

type StatusBefore =
  | NonNullable<NonNullable<Pod["status"]>["containerStatuses"]>[number]
  | undefined;

/** Whether the container has ever been made: the runtime may have forgotten it, the object has not. */
export function wasMade(facts: PodFacts, name: string): boolean {
  return (
    latestOf(facts, name) !== undefined || statusBefore(facts, name)?.containerID !== undefined
  );
}

/** Number of the next container of that name. */
export function nextAttempt(facts: PodFacts, name: string): number {
  if (!wasMade(facts, name)) return 0;
  const made = latestOf(facts, name)?.attempt ?? 0;
  return Math.max(made, statusBefore(facts, name)?.restartCount ?? 0) + 1;
}

/** Init containers first. */
export function containersOf({ spec }: Pod): readonly Container[] {
  return [...(spec.initContainers ?? []), ...spec.containers];
}

/** Why the pod never begins here; undefined: it may, or has begun. */
export function lastingRefusal({ refusal, sandboxes }: PodFacts): Reason | undefined {
  return sandboxes.length > 0 ? undefined : refusal;
}
