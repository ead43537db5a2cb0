// SPDX-License-Identifier: Apache-2.0
import type {
  IpamClaim,
  KubeVirt,
  MigrationPolicy,
  NetworkAttachmentDefinition,
  VirtualMachine,
  VirtualMachineInstance,
  VirtualMachineInstanceMigration,
} from "@patchbay/api";
import type { KubeNode, PersistentVolumeClaim, Pod, ResourceClaim } from "@patchbay/api/kubernetes";
import type { PodNetworkPolicy } from "@patchbay/core/nics";
import type { StepFailure } from "@patchbay/core/status";
import type { KeyedMutex, Clock, Logger } from "@patchbay/base";
import type {
  EventRecorder,
  MutationCache,
  ObjectWatches,
  StepBackoff,
  Reader,
} from "@patchbay/kube";
import type { Cache, Store } from "@patchbay/core/interfaces";
import type { ImageVolumes } from "./image-volumes.ts";
import type { Deferrals } from "./reconcilers/vm/deferrals.ts";

/** Caches may lag behind the API server. `mutationCache` contains this process's writes that the caches still lack. */
export interface Deps {
  readonly store: Store;
  readonly vms: Cache<VirtualMachine>;
  readonly vmis: Cache<VirtualMachineInstance>;
  /** Cache of migrations. The keys of its index `vmi` are NAMESPACE/NAME of the VMIs. */
  readonly migrations: Cache<VirtualMachineInstanceMigration>;
  readonly policies: Cache<MigrationPolicy>;
  readonly pods: Cache<Pod>;
  readonly nodes: Cache<KubeNode>;
  /** Cache of NetworkAttachmentDefinitions. The keys of its index `primary` are the namespaces of primary networks. */
  readonly nads: Cache<NetworkAttachmentDefinition>;
  readonly kubevirts: Cache<KubeVirt>;
  readonly claims: Cache<PersistentVolumeClaim>;
  /** Cache of IPAMClaims. The keys of its index `owner` are NAMESPACE/NAME of the VMs and VMIs that own claims. */
  readonly ipamClaims: Cache<IpamClaim>;
  /** Reads instancetypes, preferences and their revisions from caches. If an object is not cached, reads it from the API server. */
  readonly instancetypes: Reader;
  readonly mutationCache: MutationCache;
  /** Watches of ResourceClaims. The users are NAMESPACE/NAME of VMIs. */
  readonly resourceClaims: Pick<ObjectWatches<ResourceClaim>, "setUsed" | "list">;
  /** Serializes the creation of VMIs with the same MAC. */
  readonly macMutex: KeyedMutex;
  readonly events: EventRecorder;
  readonly stepBackoff: StepBackoff<StepFailure>;
  /** Delays of status writes, by uid of the VM. */
  readonly deferrals: Deferrals;
  readonly clock: Clock;
  readonly log: Logger;
  readonly randomBytes: (count: number) => Uint8Array;
  readonly podNetwork: PodNetworkPolicy;
  /** NAMESPACE/NAME of OVN-Kubernetes' definition of its default network. */
  readonly ovnDefaultNetwork: string;
  readonly launcherImage: string;
  readonly sidecarShimImage: string;
  readonly imageVolumes: ImageVolumes;
}
