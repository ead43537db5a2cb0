// SPDX-License-Identifier: Apache-2.0
import type {
  PersistentVolume,
  PersistentVolumeClaim,
  StorageClass,
} from "@patchbay/api/kubernetes";
import type { EventRecorder, LoopWatch } from "@patchbay/kube";
import type { Cache, ClaimDisk, Files, Store } from "@patchbay/core/interfaces";
import type { Clock, Logger, KeyedMutex } from "@patchbay/base";

export interface StorageCaches {
  readonly claims: Cache<PersistentVolumeClaim>;
  readonly volumes: Cache<PersistentVolume>;
  readonly classes: Cache<StorageClass>;
}

export interface ClaimMachine {
  readonly disk: ClaimDisk;
  readonly files: Files;
  readonly claimsDir: string;
}

export interface ClaimDeps extends ClaimMachine, StorageCaches {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  readonly recorder: EventRecorder;
  readonly nodeName: string;
  /** Serializes the provisioning of volumes, so that two claims never receive the same disk space. */
  readonly mutex: KeyedMutex;
  readonly watches?: { readonly claim: LoopWatch; readonly volume: LoopWatch };
}
