// SPDX-License-Identifier: Apache-2.0
import type { EvictionStrategy, NetworkConfig, VirtualMachineInstance } from "@patchbay/api";
import type { MacOwner, RandomBytes, FindSegment } from "@patchbay/core/nics";
import type { MutationCache, Reader } from "@patchbay/kube";
import type { Logger, KeyedMutex, RateLimiter } from "@patchbay/base";
import type { ObjectKey, Store } from "@patchbay/core/interfaces";

import type { OpenHandlerStream, SendToHandler, TakeScreenshot } from "./handlers/client.ts";
import type { Decision } from "./admission/review.ts";
import type { ReadAuthority } from "./certificates/secret.ts";
import type { FindPodNode } from "./http/calls.ts";
import type { MayReadNetwork } from "./networks.ts";

/** Dependencies of request handlers. Caches may lack recent changes. */
export interface Deps {
  /** Version of virt-api, for example v0.1.0. */
  readonly release: string;
  readonly store: Store;
  /** Reads VMs, VMIs and NetworkAttachmentDefinitions from the caches. Reads other kinds and uncached objects from the API server. */
  readonly cachedReader: Reader;
  /** Makes virt-api's writes of VMs and VMIs visible to `cachedReader` before the watch events arrive. */
  readonly mutationCache: MutationCache;
  readonly log: Logger;
  readonly randomBytes: RandomBytes;
  /** Serializes requests for the same VM (NAMESPACE/NAME) to avoid conflicts. */
  readonly mutex: KeyedMutex;
  readonly mayReadNetwork: MayReadNetwork;
  readonly findPodNode: FindPodNode;
  /** Reads the CA that signs certificates for migrations. */
  readonly relayAuthority: ReadAuthority;
  readonly sendToHandler: SendToHandler;
  readonly openHandlerStream: OpenHandlerStream;
  readonly takeScreenshot: TakeScreenshot;
  readonly screenshotRate: Pick<RateLimiter, "tryProceed">;
  readonly changeRate: Pick<RateLimiter, "proceed" | "tryProceed">;
  /** Returns whether the cluster serves DataVolumes. Returns true if discovery fails. */
  readonly servesDataVolumes: () => Promise<boolean>;
  readonly servesResourceClaims: () => Promise<boolean>;
  readonly listMacOwners: (macs: readonly string[]) => readonly MacOwner[];
  /** Returns the L2 segment of a network. Networks on the same bridge have the same segment. */
  readonly segmentOf: FindSegment;
  readonly hasGuest: (vm: ObjectKey) => boolean;
  readonly listNetworkNames: (namespace: string) => readonly string[];
  readonly findByLauncher: (pod: ObjectKey) => VirtualMachineInstance | undefined;
  readonly countDecision: (decision: Decision) => void;
  readonly networkConfig: () => NetworkConfig;
  /** Returns the cached resourceVersion of the KubeVirt object, or "" if no object exists. */
  readonly configVersion: () => string;
  readonly evictionStrategy: () => EvictionStrategy;
}
