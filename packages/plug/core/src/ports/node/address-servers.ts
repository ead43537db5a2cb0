// SPDX-License-Identifier: Apache-2.0
// What the node loop needs to give guests their addresses: a DHCP server in the pod's network namespace.
import type { ServedNic } from "../../addresses/served-nic.ts";
import type { NetnsHandle } from "../namespaces.ts";

/** A server that runs. */
export interface AddressServer {
  /** Resolves with the reason when it has ended. */
  readonly ended: Promise<string>;
  /** Ends it; resolves when it is gone. */
  stop(): Promise<void>;
}

/**
 * Starts servers, one for each NIC: a NIC that cannot be served must not stop the leases of others. They end when this
 * process ends.
 */
export interface AddressServers {
  /**
   * Resolves when it listens. The bridge exists, with its addresses.
   * @throws AppError with PODNET_ADDRESS_SERVER_FAILED, OS_PROGRAM_MISSING
   */
  start(netns: NetnsHandle, nic: ServedNic): Promise<AddressServer>;
  /** Ends what a process that died before this one has left running. */
  endLeft(): Promise<void>;
}
