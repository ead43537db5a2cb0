// SPDX-License-Identifier: Apache-2.0
// What the node loop is given.
import type { KubeVirt, VirtualMachineInstance } from "@patchbay/api";
import type { Sha256Hex } from "@patchbay/core";
import type { EventRecorder, OwnWrites } from "@patchbay/kube";
import type { Cache, Clock, Logger, PodNetwork, Store } from "@patchbay/ports";
import type { Asked } from "./unplug-requests.ts";
import type { Guests } from "./guest-names.ts";
import type { Pace } from "./pace.ts";
import type { Sessions } from "./sessions.ts";

export interface Deps extends Pace {
  readonly nodeName: string;
  readonly store: Store;
  /** The VMIs of this node. */
  readonly vmis: Cache<VirtualMachineInstance>;
  readonly kubevirts: Cache<KubeVirt>;
  readonly sessions: Sessions;
  readonly podNetwork: PodNetwork;
  readonly asked: Asked;
  readonly guests: Guests;
  readonly ownWrites: OwnWrites;
  readonly events: EventRecorder;
  readonly clock: Clock;
  readonly log: Logger;
  readonly sha256Hex: Sha256Hex;
}
