// SPDX-License-Identifier: Apache-2.0
import type { KubeVirt, VirtualMachineInstance } from "@patchbay/api";
import type { EventRecorder, MutationCache } from "@patchbay/kube";
import type {
  Cache,
  Hypervisor,
  LauncherDisks,
  LauncherPod,
  PodNetwork,
  Store,
  VhostSockets,
} from "@patchbay/core/interfaces";
import type { Clock, Logger } from "@patchbay/base";
import type { AddressStore } from "./addresses/address-store.ts";
import type { GuestServers } from "./addresses/guest-servers.ts";
import type { LearnedAddresses } from "./addresses/learned-addresses.ts";
import type { GuestHooks } from "./hooks/guest-hooks.ts";
import type { Memory } from "./memory.ts";
import type { MigrationRuns } from "./migration/migration-runs.ts";
import type { Policies } from "./policies.ts";
import type { Relays } from "./relays/relays.ts";
import type { Sessions } from "./sessions/sessions.ts";

export interface NodeParts {
  readonly nodeName: string;
  readonly store: Store;
  /** VMIs that run on this node or migrate to this node. */
  readonly vmis: Cache<VirtualMachineInstance>;
  readonly kubevirts: Cache<KubeVirt>;
  readonly podNetwork: PodNetwork;
  readonly vhostSockets: VhostSockets;
  readonly launcherDisks: LauncherDisks;
  readonly hypervisor: Hypervisor;
  readonly relays: Relays;
  readonly addressStore: AddressStore;
  readonly policies: Policies;
  readonly events: EventRecorder;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface Deps extends NodeParts, Memory {
  readonly sessions: Sessions;
  readonly guestServers: GuestServers;
  readonly learnedAddresses: LearnedAddresses;
  readonly guestHooks: GuestHooks;
  readonly mutationCache: MutationCache;
  readonly migrationRuns: MigrationRuns;
  /** Launcher pods by uid of the VMI. */
  readonly knownLaunchers: Map<string, LauncherPod>;
}
