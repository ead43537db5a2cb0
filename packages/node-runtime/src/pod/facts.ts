// SPDX-License-Identifier: Apache-2.0
// What the runtime knows of one pod.
import type { Container, Pod } from "@patchbay/api";
import type { Image } from "../images.ts";
import type { ContainerState } from "./containers.ts";
import type { PodPaths } from "./paths.ts";
import type { PodRecord } from "./record.ts";

/** One container of the specification. */
export interface ContainerFacts {
  readonly container: Container;
  readonly state: ContainerState;
}

/** Facts of one uid. */
export interface PodFacts {
  readonly uid: string;
  readonly paths: PodPaths;
  /** The object, or undefined when it is gone. */
  readonly pod: Pod | undefined;
  readonly record: PodRecord | undefined;
  /** Whether the record is of this boot. */
  readonly isRecordCurrent: boolean;
  /** Whether `sandbox.json` names the namespace that is there, with the default network in it. */
  readonly hasSandbox: boolean;
  /** Images by name, of containers and volumes. */
  readonly images: ReadonlyMap<string, Image>;
  /** Images that are named and not there, sorted. */
  readonly missingImages: readonly string[];
  /** In the order of the specification. */
  readonly containers: readonly ContainerFacts[];
  /** Whether anything on this machine is left of the pod. */
  readonly hasRemains: boolean;
}
