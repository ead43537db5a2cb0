// SPDX-License-Identifier: Apache-2.0
// What the node's door needs to tell where frames of a guest die: a look at the links of a NIC's way, and frames of its own.
import type { SeenWiring } from "../../../bindings/pod-wiring.ts";
import type { SeenWay } from "../../../doctor/facts.ts";
import type { NetnsHandle } from "../../namespaces.ts";

/** A NIC whose way is looked at. */
export interface ExaminedNic {
  readonly pod: NetnsHandle;
  /** The node's own namespace. */
  readonly node: NetnsHandle;
  readonly wiring: SeenWiring;
  /** Addresses that the guest is known to have, without length; IPv4 before IPv6. */
  readonly addresses: readonly string[];
  /**
   * Address to probe on the network. `isGuest`: it belongs to another guest of this node, and is probed only when neither
   * the pod NIC's routes nor the node's bridge offer a gateway, as when this is unset.
   */
  readonly target?: { readonly address: string; readonly isGuest: boolean };
  /** The network may have a DHCP server, which is asked for an offer and no more. */
  readonly asksDhcp: boolean;
  /** How long it may take, milliseconds; at least 1000. */
  readonly withinMs: number;
}

/** Looks, and changes nothing: what it sends is its own, and of what it hears it keeps what answers that. */
export interface NicDoctor {
  /**
   * Takes at most as long as it may, and what the kernel takes to tell of its links, some milliseconds.
   * @throws AppError with PODNET_FAILED, OS_FILE_FAILED, OS_DESCRIPTOR_STALE
   */
  examine(nic: ExaminedNic): Promise<SeenWay>;
}
