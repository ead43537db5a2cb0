// SPDX-License-Identifier: Apache-2.0
// What does the loop over pods work with?
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

/** A node as one pass sees it: API server, kernel, processes and directories. Lives as long as the process. */
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

/** Index of the cache of pods: each by its uid. */
export const BY_UID = "uid";
