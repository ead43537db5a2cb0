// SPDX-License-Identifier: Apache-2.0
import type { Pod } from "@patchbay/api/kubernetes";
import type { Clock, Logger, KeyedMutex } from "@patchbay/base";
import type { Files, VhostDirectories, VolumeDisk } from "@patchbay/core/interfaces";

import type { ClaimUses } from "../claims/index.ts";
import type { NodeFacts } from "../translate/node-facts.ts";
import type { PodObjects } from "./objects/pod-objects.ts";
import type { PodTokens } from "./objects/pod-tokens.ts";

export interface ImageViews {
  /** Mounts an image read-only at the path. Idempotent. */
  show(reference: string, path: string): Promise<void>;
  /** Reverts `show`. Succeeds if nothing is mounted. */
  release(path: string): Promise<void>;
}

export interface VolumeDeps {
  readonly disk: VolumeDisk;
  readonly files: Files;
  readonly clock: Clock;
  readonly log: Logger;
  readonly node: NodeFacts;
  readonly objects: PodObjects;
  readonly tokens: PodTokens;
  readonly images: ImageViews;
  readonly sockets: VhostDirectories;
  /** Serializes preparing, refreshing and removing the volumes of one pod, by uid. */
  readonly mutex: KeyedMutex;
  readonly claims: ClaimUses;
  readonly mayUseHostPaths: (pod: Pod) => boolean;
  /** Returns the host directories that VMs may use; undefined if the feature is disabled. */
  readonly findHostDisks: () => Promise<readonly string[] | undefined>;
}
