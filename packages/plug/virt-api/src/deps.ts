// SPDX-License-Identifier: Apache-2.0
// What routes and admission work with.
import type { EvictionStrategy, NetworkConfig, VirtualMachineInstance } from "@patchbay/api";
import type { MacOwner, RandomBytes, SegmentOf } from "@patchbay/core";
import type { OwnWrites, Reader } from "@patchbay/kube";
import type { Logger, ObjectKey, Store } from "@patchbay/core/ports";
import type { KeyedMutex } from "@patchbay/core/keyed-mutex";
import type { OpenHandlerStream, AskHandler } from "./handlers/client.ts";
import type { Decision } from "./admission/review.ts";
import type { ReadAuthority } from "./certificates/secret.ts";
import type { NodeOfPod } from "./callers.ts";
import type { MayReadNetwork } from "./networks.ts";

/** One set for the whole process; nothing in it belongs to one request. */
export interface Deps {
  /** Of this program, for example v0.1.0. */
  readonly release: string;
  readonly store: Store;
  /** VMs, VMIs and definitions of networks as far as caches tell; what they do not have is asked of the store. */
  readonly known: Reader;
  /** Of VMs and VMIs: `known` is as new as they are. */
  readonly ownWrites: OwnWrites;
  readonly log: Logger;
  readonly randomBytes: RandomBytes;
  /** By NAMESPACE/NAME: requests on one VM go one after the other, else many of them do little but lose to each other. */
  readonly mutex: KeyedMutex;
  readonly mayReadNetwork: MayReadNetwork;
  readonly nodeOfPod: NodeOfPod;
  /** Who signs what nodes show when guests move; undefined where others keep the certificates. */
  readonly relayAuthority: ReadAuthority;
  readonly askHandler: AskHandler;
  readonly openHandlerStream: OpenHandlerStream;
  /** Whether the cluster knows DataVolumes; yes where it cannot be found out. */
  readonly servesDataVolumes: () => Promise<boolean>;
  /** VMs, and VMIs without a VM, that have one of the MACs (lower case, with colons), as far as they are known. */
  readonly listMacOwners: (macs: readonly string[]) => readonly MacOwner[];
  /** What networks have in common that share a bridge, as far as their definitions are known. */
  readonly segmentOf: SegmentOf;
  /** Whether the VM of that name has a guest, as far as it is known. */
  readonly hasGuest: (vm: ObjectKey) => boolean;
  /** Names of the definitions of networks in a namespace, as far as they are known. */
  readonly listNetworkNames: (namespace: string) => readonly string[];
  /** The VMI that has that launcher pod, as far as it is known. */
  readonly findByLauncher: (pod: ObjectKey) => VirtualMachineInstance | undefined;
  readonly countDecision: (decision: Decision) => void;
  /** What the cluster has set for NICs, as far as it is known. */
  readonly networkConfig: () => NetworkConfig;
  /** By which version of the KubeVirt object this process goes, as far as it is known; "" without one. */
  readonly configVersion: () => string;
  /** What an eviction does where a VM does not say, as far as it is known. */
  readonly evictionStrategy: () => EvictionStrategy;
}
