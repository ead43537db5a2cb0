// SPDX-License-Identifier: Apache-2.0
import type { NetworkAttachmentDefinition } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import type { DefinitionFiles, DeviceInfoFiles, Journal, ResultCache } from "@patchbay/cni";
import type { AgentMode, NodeSubnet } from "@patchbay/core/nics";
import type { AppError, KeyedMutex, Clock, Logger } from "@patchbay/base";

import type { EventRecorder } from "@patchbay/kube";
import type {
  Cache,
  Cni,
  DefaultRoutes,
  Namespaces,
  NetworkConfigList,
  NodeNics,
  OpenNetns,
  PodDevices,
  PodNetwork,
  Sandboxes,
  Store,
} from "@patchbay/core/interfaces";
import type { Failures } from "./failures.ts";
import type { CurrentPolicy } from "./policy.ts";
import type { TrackedPods } from "./tracked-pods.ts";

export interface Deps {
  readonly store: Store;
  readonly pods: Cache<Pod>;
  readonly nads: Cache<NetworkAttachmentDefinition>;
  readonly definitionFiles: DefinitionFiles;
  /** Reads the pods' default network; unset if the agent does not serve the runtime. @throws AppError with CNI_DEFAULT_NETWORK_MISSING */
  readonly readDefaultNetwork?: () => Promise<NetworkConfigList>;
  readonly sandboxes: Sandboxes;
  readonly podDevices: PodDevices;
  readonly deviceInfo: DeviceInfoFiles;
  readonly namespaces: Namespaces;
  readonly podNetwork: Pick<
    PodNetwork,
    "listLinks" | "readPaths" | "restoreNic" | "removeLink" | "restoreName"
  >;
  readonly defaultRoutes: DefaultRoutes;
  /** The node's own NICs, which plugins may move into pods. */
  readonly nodeNics: NodeNics;
  /** Opens the host's network namespace, which the caller must close. @throws AppError with OS_PATH_REFUSED */
  readonly openHostNetns: () => OpenNetns;
  readonly cni: Cni;
  readonly journal: Journal;
  readonly resultCache: ResultCache;
  readonly multusCache: ResultCache;
  readonly trackedPods: TrackedPods;
  /** Permits one operation at a time per pod UID, because the container runtime may call the agent during the pod's reconcile pass. */
  readonly podMutex: KeyedMutex;
  readonly failures: Failures;
  readonly events: EventRecorder;
  /** Called after each operation, to restart the time limit of the reconcile pass. */
  readonly onProgress?: () => void;
  readonly clock: Clock;
  readonly log: Logger;
  /** ID of the node's current boot. Source: /proc/sys/kernel/random/boot_id */
  readonly bootId: string;
  /** Inode of the host's own network namespace, to which the agent never attaches a network. */
  readonly hostNetnsInode: string;
  readonly policy: CurrentPolicy;
  /** Lists the node's own bridges: bridges that flags name, and each bridge with a port that belongs to neither a pod nor a guest. */
  readonly listOwnBridges: () => Promise<ReadonlySet<string>>;
  readonly listNodeSubnets: () => Promise<readonly NodeSubnet[]>;
  /** Lists the ports on which the node listens, of all protocols. Undefined if they cannot be read. */
  readonly listListeningPorts: () => Promise<ReadonlySet<number> | undefined>;
  /** Returns the network's problems on this node, including a tolerated policy violation. `network` has the form NAMESPACE/NAME. */
  readonly findProblems: (network: string) => Promise<readonly AppError[]>;
  readonly mode: AgentMode;
  /** Whether a pod may use only networks in its own namespace, networks in namespace `default`, and networks to which its VMI refers. */
  readonly isIsolated: boolean;
}
