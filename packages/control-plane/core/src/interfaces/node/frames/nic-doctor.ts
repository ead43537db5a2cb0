// SPDX-License-Identifier: Apache-2.0
import type { ObservedWiring } from "../../../nics/bindings/pod-wiring.ts";
import type { ObservedPath } from "../../../doctor/facts.ts";
import type { NetnsHandle } from "../../namespaces.ts";

export interface ExaminedNic {
  readonly pod: NetnsHandle;
  readonly node: NetnsHandle;
  readonly wiring: ObservedWiring;
  /** Known addresses of the guest, without prefix lengths. IPv4 addresses come first. */
  readonly addresses: readonly string[];
  /**
   * Address to probe on the network. With `isGuest` it belongs to another guest of this node, and is only probed if neither
   * the pod NIC's routes nor the node's bridge name a gateway.
   */
  readonly target?: { readonly address: string; readonly isGuest: boolean };
  /** Whether to request a DHCP offer. No lease is taken. */
  readonly testsDhcp: boolean;
  /** Time limit in milliseconds, at least 1000. */
  readonly withinMs: number;
}

/** Tests the path of a NIC's frames. Changes no links, sends only its own frames, and records only replies to them. */
export interface NicDoctor {
  /**
   * Observes the NIC's path within the time limit, plus some milliseconds for reading the links.
   * @throws AppError with PODNET_FAILED, OS_FILE_FAILED, OS_DESCRIPTOR_STALE
   */
  examine(nic: ExaminedNic): Promise<ObservedPath>;
}
