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
  /** Gateway from CNI or a recorded route. The pod's default gateway precedes an unrouted gateway. */
  readonly gateway?: { readonly address: string; readonly isRouted: boolean };
  /** Address of another guest, probed only if gateways are silent and the node has no address. */
  readonly neighbor?: string;
  /** Whether to request a DHCP offer, without accepting a lease. */
  readonly testsDhcp: boolean;
  /** Time limit in milliseconds, at least 1000. */
  readonly withinMs: number;
}

/** Finds breaks in a NIC's path by probe frames. Records only probes, replies and ARP requests. */
export interface NicDoctor {
  /**
   * Examines the NIC's path. May exceed `withinMs` by some milliseconds, while it reads the links.
   * @throws AppError with PODNET_FAILED, OS_FILE_FAILED, OS_DESCRIPTOR_STALE
   */
  examine(nic: ExaminedNic): Promise<ObservedPath>;
}
