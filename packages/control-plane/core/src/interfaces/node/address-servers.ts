// SPDX-License-Identifier: Apache-2.0
import type { ServedNic } from "../../nics/addresses/served-nic.ts";
import type { NetnsHandle } from "../namespaces.ts";

export interface AddressServer {
  readonly ended: Promise<string>;
  stop(): Promise<void>;
}

/** Starts a separate DHCP server for each NIC, so that a failure affects only one NIC. The servers end with this process. */
export interface AddressServers {
  /**
   * Starts a server and resolves when the server listens. The bridge must exist and have its addresses.
   * @throws AppError with PODNET_ADDRESS_SERVER_FAILED, OS_PROGRAM_MISSING
   */
  start(netns: NetnsHandle, nic: ServedNic): Promise<AddressServer>;
  killLeftovers(): Promise<void>;
}
