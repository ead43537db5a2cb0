// SPDX-License-Identifier: Apache-2.0
// What the loop's passes share.
import type { KubeVirt, VirtualMachineInstance } from "@patchbay/api";
import type { Sha256Hex } from "@patchbay/core";
import type { EventRecorder, OwnWrites } from "@patchbay/kube";
import type { Cache, Clock, Logger, PodNetwork, Store } from "@patchbay/ports";
import type { UnplugRequests } from "./unplug-requests.ts";
import type { GuestNames } from "./guest-names.ts";
import type { Pace } from "./pace.ts";
import type { Sessions } from "./sessions.ts";

/** The adapters of one node, and what the process remembers of its VMs from pass to pass. */
export interface Deps extends Pace {
  readonly nodeName: string;
  readonly store: Store;
  /** The VMIs of this node. */
  readonly vmis: Cache<VirtualMachineInstance>;
  readonly kubevirts: Cache<KubeVirt>;
  readonly sessions: Sessions;
  readonly podNetwork: PodNetwork;
  readonly unplugRequests: UnplugRequests;
  readonly guestNames: GuestNames;
  readonly ownWrites: OwnWrites;
  readonly events: EventRecorder;
  readonly clock: Clock;
  readonly log: Logger;
  readonly sha256Hex: Sha256Hex;
}
