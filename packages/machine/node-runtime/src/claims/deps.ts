// SPDX-License-Identifier: Apache-2.0
// What do claims need of the API server and of the machine?
import type { PersistentVolume, PersistentVolumeClaim, StorageClass } from "@patchbay/api";
import type { EventRecorder, LoopWatch } from "@patchbay/kube";
import type { Cache, ClaimDisk, Clock, Files, Logger, Store } from "@patchbay/core/ports";
import type { KeyedMutex } from "@patchbay/core/keyed-mutex";

/** What is known of storage, by watches. */
export interface StorageCaches {
  readonly claims: Cache<PersistentVolumeClaim>;
  readonly volumes: Cache<PersistentVolume>;
  readonly classes: Cache<StorageClass>;
}

/** The machine with the storage. */
export interface ClaimMachine {
  readonly disk: ClaimDisk;
  readonly files: Files;
  /** Directory of all claims' storage, absolute. */
  readonly claimsDir: string;
}

/** The loop over claims and volumes. Lives as long as the process. */
export interface ClaimDeps extends ClaimMachine, StorageCaches {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  readonly recorder: EventRecorder;
  readonly nodeName: string;
  /** Room on the disk is given to one claim at a time. */
  readonly mutex: KeyedMutex;
  readonly watches?: { readonly claim: LoopWatch; readonly volume: LoopWatch };
}
