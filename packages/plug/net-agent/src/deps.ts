// SPDX-License-Identifier: Apache-2.0
// What does the loop over pods work with?
import type { NetworkAttachmentDefinition, Pod } from "@patchbay/api";
import type { DefinitionFiles, DeviceInfoFiles, Journal, ResultCache } from "@patchbay/cni";
import type { AgentMode, AppError } from "@patchbay/core";
import type { KeyedMutex } from "@patchbay/core/keyed-mutex";
import type { EventRecorder } from "@patchbay/kube";
import type {
  Cache,
  Clock,
  Cni,
  DefaultRoutes,
  Logger,
  Namespaces,
  NetworkConfigList,
  NodeNics,
  OpenNetns,
  PodDevices,
  PodNetwork,
  Sandboxes,
  Store,
} from "@patchbay/core/ports";
import type { Failures } from "./failures.ts";
import type { PolicyNow } from "./policy.ts";
import type { TrackedPods } from "./tracked-pods.ts";

/** A node as one pass sees it: API server, kernel, CNI, what is on disk, and what the agent remembers. Lives as long as the process. */
export interface Deps {
  readonly store: Store;
  /** The pods of this node. */
  readonly pods: Cache<Pod>;
  readonly nads: Cache<NetworkAttachmentDefinition>;
  /** What definitions mean that have no configuration of their own. */
  readonly definitionFiles: DefinitionFiles;
  /**
   * The pods' default network, as it is now, where the agent makes it. @throws AppError with CNI_DEFAULT_NETWORK_MISSING
   */
  readonly readDefaultNetwork?: () => Promise<NetworkConfigList>;
  readonly sandboxes: Sandboxes;
  /** Which devices the kubelet has given to pods. */
  readonly podDevices: PodDevices;
  /** What is told of the devices that attachments have. */
  readonly deviceInfo: DeviceInfoFiles;
  readonly namespaces: Namespaces;
  readonly podNetwork: Pick<PodNetwork, "listLinks" | "giveBack" | "removeLink" | "restoreName">;
  readonly defaultRoutes: DefaultRoutes;
  /** The node's own NICs, which plugins may move into pods. */
  readonly nodeNics: NodeNics;
  /** The namespace that has them; whoever opens it closes it. @throws AppError with OS_PATH_REFUSED */
  readonly openHostNetns: () => OpenNetns;
  readonly cni: Cni;
  readonly journal: Journal;
  /** What runtimes remember of their attachments. */
  readonly resultCache: ResultCache;
  /** What Multus remembers of its attachments. */
  readonly multusCache: ResultCache;
  /** Whose rows the journal holds. */
  readonly tracked: TrackedPods;
  /** One piece of work at a time on a pod, by uid: calls of the container runtime come between passes. */
  readonly podMutex: KeyedMutex;
  /** What failed and is left alone for now. */
  readonly failures: Failures;
  readonly events: EventRecorder;
  /** Tells that an operation has ended, and another one may take its time. */
  readonly progressed?: () => void;
  readonly clock: Clock;
  readonly log: Logger;
  /** Boot of this machine. Source: /proc/sys/kernel/random/boot_id */
  readonly bootId: string;
  /** Inode of the host's own network namespace; nothing is ever attached to it. */
  readonly hostNetnsInode: string;
  /** What definitions of tenants may name. */
  readonly policy: PolicyNow;
  /** Bridges of the host that are not only for pods and guests. */
  readonly listOwnBridges: () => Promise<ReadonlySet<string>>;
  /** What keeps NICs of a network, NAMESPACE/NAME, from being made on this node: asked when a plugin has failed. */
  readonly findProblems: (network: string) => Promise<readonly AppError[]>;
  /** Who attaches networks beside this agent. */
  readonly mode: AgentMode;
  /** Whether pods may use networks of their own namespace, of `default` and of their VMI only. */
  readonly isIsolated: boolean;
}
