// SPDX-License-Identifier: Apache-2.0
// What do volumes need of the machine and of the API server?
import type { Pod } from "@patchbay/api";
import type { Clock, Files, Logger, VhostDirectories, VolumeDisk } from "@patchbay/core/ports";
import type { KeyedMutex } from "@patchbay/core/keyed-mutex";
import type { ClaimUses } from "../claims/index.ts";
import type { NodeFacts } from "../translate/node-facts.ts";
import type { PodObjects } from "./objects/pod-objects.ts";
import type { PodTokens } from "./objects/pod-tokens.ts";

/** Files of images, as the container runtime has them. */
export interface ImageViews {
  /** Mounts the image's files at the directory, read-only; again without complaint. */
  show(reference: string, path: string): Promise<void>;
  /** Gives back what `show` took; not there is success. */
  release(path: string): Promise<void>;
}

/** One node. Lives as long as the process. */
export interface VolumeDeps {
  readonly disk: VolumeDisk;
  readonly files: Files;
  readonly clock: Clock;
  readonly log: Logger;
  readonly node: NodeFacts;
  readonly objects: PodObjects;
  readonly tokens: PodTokens;
  readonly images: ImageViews;
  /** Of pods that ask for sockets of vhost-user, by their UIDs. */
  readonly sockets: VhostDirectories;
  /** One pod's volumes are prepared, refreshed and removed one after the other. */
  readonly mutex: KeyedMutex;
  readonly claims: ClaimUses;
  /** Whether a pod may mount any path of the node. */
  readonly mayUseHostPaths: (pod: Pod) => boolean;
  /** Directories of the node that launchers may mount; undefined: that is switched off. */
  readonly findHostDisks: () => Promise<readonly string[] | undefined>;
}
