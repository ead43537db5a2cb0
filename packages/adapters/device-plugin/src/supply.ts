// SPDX-License-Identifier: Apache-2.0
// What stands behind an offer.
import type { Logger } from "@patchbay/core/ports";
import type { Offer } from "./offer.ts";
import type { ContainerAllocation } from "./protocol.ts";

/** Where things are on the node. */
export interface OfferPlaces {
  /** Of the kubelet, for example `/var/lib/kubelet`. */
  readonly kubeletDir: string;
  /** What the node's `/` is from here: `/`, or for example `/proc/1/root` in a pod. */
  readonly hostRoot: string;
}

/** What is given to containers, and whether there is any. */
export interface Supply {
  readonly offer: Offer;
  /** A directory whose changes may change whether there is any; absent: that never changes. */
  readonly watched?: string;
  /** Whether there is any: the health of all of it. */
  isThere(): Promise<boolean>;
  /** Makes what can be made before somebody asks; may be repeated. */
  prepare(log: Logger): Promise<void>;
  /** Makes sure of what a container gets that asked for these. @throws AppError where it cannot be given */
  give(ids: readonly string[], log: Logger): Promise<ContainerAllocation>;
}
