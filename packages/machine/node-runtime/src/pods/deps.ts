// SPDX-License-Identifier: Apache-2.0
// What does the loop over pods work with?
import type { Pod } from "@patchbay/api";
import type { EventRecorder, Pauses } from "@patchbay/kube";
import type {
  Cache,
  Clock,
  ContainerRuntime,
  Files,
  Logger,
  Store,
  VolumeDisk,
} from "@patchbay/core/ports";
import type { Admission } from "../schedule/admission.ts";
import type { NodeFacts } from "../translate/node-facts.ts";
import type { ContainerHealth, ContainerFacts, Reason } from "./facts.ts";
import type { Owners } from "./work/owners.ts";
import type { Pulls } from "./work/pulls.ts";
import type { Stops } from "./work/stops.ts";

/** What a pod mounts. */
export interface Volumes {
  /**
   * Makes what is not there; repeated, it changes nothing. The path on the host of each volume, by name.
   * @throws AppError while something that a volume shows is missing
   */
  prepare(pod: Pod): Promise<ReadonlyMap<string, string>>;
  /** Removes them and the directory of the pod; not there is success. */
  remove(uid: string): Promise<void>;
}

/** A container whose probes run. */
export interface ProbedContainer {
  readonly pod: Pod;
  readonly container: ContainerFacts;
  readonly podIps: readonly string[];
}

/** Probes of the containers that run; an outcome that is news wakes the pod. */
export interface Probes {
  /** Probes these containers of the pod and no others. */
  keep(uid: string, containers: readonly ProbedContainer[]): void;
  /** By id of the container; those without probes are not in it. */
  healthOf(uid: string): ReadonlyMap<string, ContainerHealth>;
}

/** Ends what the runtime has forgotten of containers that are no more. */
export interface Sweeper {
  readonly now: () => Promise<void>;
  /** A start was cut off, which is undone in its own time: looks now, and some times later. */
  readonly afterCut: () => void;
}

/** A node as one pass sees it. Lives as long as the process. */
export interface PodDeps {
  readonly store: Store;
  /** The pods of this node, indexed by uid: {@link BY_UID}. */
  readonly pods: Cache<Pod>;
  readonly runtime: ContainerRuntime;
  /** Name of the runtime in the ids of containers. */
  readonly runtimeName: string;
  readonly files: Files;
  readonly disk: Pick<VolumeDisk, "kindOf">;
  readonly clock: Clock;
  readonly log: Logger;
  readonly recorder: EventRecorder;
  readonly node: NodeFacts;
  readonly volumes: Volumes;
  readonly probes: Probes;
  readonly admission: Admission;
  /** Steps that failed. */
  readonly pauses: Pauses<Reason>;
  readonly owners: Owners;
  readonly pulls: Pulls;
  readonly stops: Stops;
  readonly sweeper: Sweeper;
  /** Has the runtime make a sandbox, and records the bridges that its CNI plugins create on the node meanwhile. */
  readonly observeNetworks: <T>(makeSandbox: () => Promise<T>) => Promise<T>;
  /** Sandboxes whose network was given back since this process began. */
  readonly released: Set<string>;
}

/** Index of the cache of pods: each by its uid. */
export const BY_UID = "uid";
