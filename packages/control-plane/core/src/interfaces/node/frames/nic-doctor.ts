// SPDX-License-Identifier: Apache-2.0
import type { ObservedWiring } from "../../../nics/bindings/pod-wiring.ts";
import type { ObservedPath } from "../../../doctor/facts.ts";
import type { NetnsHandle } from "../../namespaces.ts";

export interface ExaminedNic {
  readonly pod: NetnsHandle;
  readonly node: NetnsHandle;
  readonly wiring: ObservedWiring;
  /** Known addresses of the guest, without prefix lengths; IPv4 before IPv6. */
  readonly addresses: readonly string[];
  /**
   * Address to probe on the network. `isGuest`: it belongs to another guest of this node, and is probed only if neither
   * the pod NIC's routes nor the node's bridge offer a gateway, as if this were unset.
   */
  readonly target?: { readonly address: string; readonly isGuest: boolean };
  /** Whether to request a DHCP offer. No lease is taken. */
  readonly testsDhcp: boolean;
  /** Time limit, at least 1000. */
  readonly withinMs: number;
}

/** Changes nothing on the links. Sends only its own frames, and keeps only replies to them. */
export interface NicDoctor {
  /**
   * Takes at most the time limit plus some milliseconds for reading the links.
   * @throws AppError with PODNET_FAILED, OS_FILE_FAILED, OS_DESCRIPTOR_STALE
   */
  examine(nic: ExaminedNic): Promise<ObservedPath>;
}
