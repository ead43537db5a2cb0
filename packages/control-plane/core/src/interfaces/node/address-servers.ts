// SPDX-License-Identifier: Apache-2.0
import type { ServedNic } from "../../nics/addresses/served-nic.ts";
import type { NetnsHandle } from "../namespaces.ts";

export interface AddressServer {
  readonly ended: Promise<string>;
  stop(): Promise<void>;
}

/** Starts a DHCP server for each NIC, so that a faulty NIC does not affect other NICs. Servers end when this process ends. */
export interface AddressServers {
  /**
   * Resolves when the server listens. The bridge must exist with its addresses.
   * @throws AppError with PODNET_ADDRESS_SERVER_FAILED, OS_PROGRAM_MISSING
   */
  start(netns: NetnsHandle, nic: ServedNic): Promise<AddressServer>;
  killLeftovers(): Promise<void>;
}
