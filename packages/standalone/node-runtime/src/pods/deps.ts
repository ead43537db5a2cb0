// SPDX-License-Identifier: Apache-2.0
import type { Pod } from "@patchbay/api/kubernetes";
import type { EventRecorder, StepBackoff } from "@patchbay/kube";
import type { Cache, ContainerRuntime, Files, Store, VolumeDisk } from "@patchbay/core/interfaces";
import type { Clock, Logger } from "@patchbay/base";
import type { Admission } from "../schedule/admission.ts";
import type { NodeFacts } from "../translate/node-facts.ts";
import type { ContainerHealth, ContainerFacts, Reason } from "./facts.ts";
import type { Owners } from "./owners.ts";
import type { Pulls } from "./pulls.ts";
import type { Stops } from "./stops.ts";

export interface Volumes {
  /**
   * Prepares the volumes and returns their paths on the host, by volume name. Idempotent.
   * @throws AppError when a volume cannot be prepared, for example because its ConfigMap is missing
   */
  prepare(pod: Pod): Promise<ReadonlyMap<string, string>>;
  /** Removes the volumes and the directory of the pod. Idempotent. */
  remove(uid: string): Promise<void>;
}

export interface ProbedContainer {
  readonly pod: Pod;
  readonly container: ContainerFacts;
  readonly podIps: readonly string[];
}

/** Probes of running containers. A change of a container's health enqueues the pod. */
export interface Probes {
  retain(uid: string, containers: readonly ProbedContainer[]): void;
  /** Returns the health of the containers that have probes, by container id. */
  findHealth(uid: string): ReadonlyMap<string, ContainerHealth>;
}

/** Kills the shims of sandboxes that the runtime no longer knows. */
export interface Sweeper {
  readonly sweep: () => Promise<void>;
  /** Sweeps immediately and again after delays, because containerd may still be undoing interrupted starts. */
  readonly sweepAfterInterruption: () => void;
}

export interface PodDeps {
  readonly store: Store;
  /** Writes the pods' status through a client of its own, because tenants' pods can exhaust the connections of `store`. */
  readonly statusStore: Pick<Store, "patch">;
  /** Pods of this node, indexed by {@link UID_INDEX}. */
  readonly pods: Cache<Pod>;
  readonly runtime: ContainerRuntime;
  /** Scheme of the container ids in pod statuses, for example `containerd`. */
  readonly runtimeName: string;
  readonly files: Files;
  readonly disk: Pick<VolumeDisk, "readKind">;
  readonly clock: Clock;
  readonly log: Logger;
  readonly recorder: EventRecorder;
  readonly node: NodeFacts;
  readonly volumes: Volumes;
  readonly probes: Probes;
  readonly admission: Admission;
  readonly stepBackoff: StepBackoff<Reason>;
  readonly owners: Owners;
  readonly pulls: Pulls;
  readonly stops: Stops;
  readonly sweeper: Sweeper;
  readonly observeNetworks: <T>(makeSandbox: () => Promise<T>) => Promise<T>;
  readonly releasedSandboxIds: Set<string>;
}

export const UID_INDEX = "uid";
