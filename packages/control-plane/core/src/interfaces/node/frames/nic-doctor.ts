// SPDX-License-Identifier: Apache-2.0
import type { ObservedWiring } from "../../../nics/bindings/pod-wiring.ts";
import type { ObservedPath } from "../../../doctor/facts.ts";
import type { NetnsHandle } from "../../namespaces.ts";

export interface ExaminedNic {
  readonly pod: NetnsHandle;
  readonly node: NetnsHandle;
  readonly wiring: ObservedWiring;
  /** Addresses of the guest, without prefix lengths. IPv4 addresses come first. */
  readonly addresses: readonly string[];
  /** Gateway from the CNI result or a recorded route. Unless a route uses it (`isRouted`), the doctor prefers the pod's default gateway. */
  readonly gateway?: { readonly address: string; readonly isRouted: boolean };
  /** Address of another guest on this node. The doctor probes it only if no gateway answers and the node has no address on the network. */
  readonly neighbor?: string;
  /** Whether to request a DHCP offer, without accepting a lease. */
  readonly testsDhcp: boolean;
  /** Time limit in milliseconds, at least 1000. */
  readonly withinMs: number;
}

/** Uses probe frames to find where a NIC's path is broken. Changes no links. Records only probes, replies and the guest's ARP requests. */
export interface NicDoctor {
  /**
   * Examines the NIC's path. May exceed `withinMs` by some milliseconds, while it reads the links.
   * @throws AppError with PODNET_FAILED, OS_FILE_FAILED, OS_DESCRIPTOR_STALE
   */
  examine(nic: ExaminedNic): Promise<ObservedPath>;
}
