// SPDX-License-Identifier: Apache-2.0
import type { Pod } from "@patchbay/api/kubernetes";
import type { Clock, Logger, KeyedMutex, SharePool } from "@patchbay/base";
import type { Files, VhostDirectories, VolumeDisk } from "@patchbay/core/interfaces";

import type { ClaimUses } from "../claims/index.ts";
import type { NodeFacts } from "../translate/node-facts.ts";
import type { PodObjects } from "./objects/pod-objects.ts";
import type { PodTokens } from "./objects/pod-tokens.ts";

export interface ImageMounts {
  mount(reference: string, path: string): Promise<void>;
  unmount(path: string): Promise<void>;
}

/** Limits on the volumes in preparation of a namespace and of the node. Each runs a process as root, for example mke2fs or mount. */
export const PREPARATION_LIMITS = { max: 8, share: 4, reserve: 1 };

export interface VolumeDeps {
  readonly disk: VolumeDisk;
  readonly files: Files;
  readonly clock: Clock;
  readonly log: Logger;
  readonly node: NodeFacts;
  readonly objects: PodObjects;
  readonly tokens: PodTokens;
  readonly images: ImageMounts;
  readonly sockets: VhostDirectories;
  /** Serializes the preparation, refresh and removal of one pod's volumes. The key is the pod's uid. */
  readonly mutex: KeyedMutex;
  readonly preparations: SharePool;
  readonly claims: ClaimUses;
  readonly mayUseHostPaths: (pod: Pod) => boolean;
  /** Returns the host directories that VMs may use; undefined without the feature gate HostDisk. */
  readonly readHostDiskDirectories: () => Promise<readonly string[] | undefined>;
}
