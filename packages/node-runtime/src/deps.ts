// SPDX-License-Identifier: Apache-2.0
// What the loop over pods is given.
import type { Pod } from "@patchbay/api";
import type {
  Cache,
  Clock,
  Cni,
  Files,
  Logger,
  Namespaces,
  ProcessRunner,
  Store,
} from "@patchbay/ports";
import type { ProcessEnds } from "./process-ends.ts";

/** Directories of the runtime. */
export interface Directories {
  /** Volumes and `sandbox.json` of each pod, by uid. */
  readonly pods: string;
  readonly images: string;
  /** Records and bundles of each pod, by uid. */
  readonly state: string;
  readonly cniConf: string;
  /** pod-shim and its kin. */
  readonly libexec: string;
}

export interface Deps {
  readonly store: Store;
  /** The pods of this node, indexed by uid: {@link BY_UID}. */
  readonly pods: Cache<Pod>;
  readonly files: Files;
  readonly runner: ProcessRunner;
  readonly namespaces: Namespaces;
  readonly cni: Cni;
  readonly ends: ProcessEnds;
  readonly clock: Clock;
  readonly log: Logger;
  readonly directories: Directories;
  /** Boot of this machine. Source: /proc/sys/kernel/random/boot_id */
  readonly bootId: string;
  /** Address of the node. */
  readonly hostIp: string;
}

/** Name of the index. */
export const BY_UID = "uid";
