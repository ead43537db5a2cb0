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

/** One node as the loop is given it: its adapters, and the caches that others fill. */
export interface NodeParts {
  readonly nodeName: string;
  readonly store: Store;
  /** The VMIs of this node; what is in it already is worked on too. */
  readonly vmis: Cache<VirtualMachineInstance>;
  readonly kubevirts: Cache<KubeVirt>;
  readonly podNetwork: PodNetwork;
  readonly events: EventRecorder;
  readonly clock: Clock;
  readonly log: Logger;
}

/** What the passes share beside that: what the process remembers of VMs from pass to pass. */
export interface Deps extends NodeParts, Pace {
  readonly sessions: Sessions;
  readonly unplugRequests: UnplugRequests;
  readonly guestNames: GuestNames;
  readonly ownWrites: OwnWrites;
  readonly sha256Hex: Sha256Hex;
}
