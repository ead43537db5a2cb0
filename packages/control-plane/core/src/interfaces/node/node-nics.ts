// SPDX-License-Identifier: Apache-2.0
// Borrowed host NICs, which move from the node into a pod and are restored afterwards.
import type { NetnsHandle } from "../namespaces.ts";

/** Property by which a plugin's configuration identifies a NIC of the node. Source: CNI plugin host-device. */
export type NodeNicName =
  | { readonly by: "name"; readonly name: string }
  | { readonly by: "mac"; readonly mac: string }
  /** Absolute path of the device below /sys/devices. */
  | { readonly by: "kernelPath"; readonly path: string }
  /** PCI address of the NIC, or name of its auxiliary device. */
  | { readonly by: "device"; readonly id: string };

export interface NodeNic {
  readonly name: string;
  /** ifindex at the time of reading. The encoded `addresses` and `routes` contain this number. */
  readonly index: number;
  /** Kind of link, as in {@link Link.kind}. Empty for a physical NIC. */
  readonly kind: string;
  readonly mac: string;
  /** Permanent MAC of the hardware. Unset if the kernel reports none. */
  readonly permanentMac?: string;
  readonly mtu: number;
  readonly up: boolean;
  /** Alias of the link, usually empty. Source: ip-link(8), alias */
  readonly alias: string;
  /** The NIC's addresses as base64-encoded kernel attributes, without addresses that the kernel assigns. Source: struct ifaddrmsg. */
  readonly addresses: readonly string[];
  /** Routes of the main table through the NIC, as base64-encoded kernel attributes. Source: struct rtmsg. */
  readonly routes: readonly string[];
}

export type RestoredNic =
  | { readonly kind: "absent" }
  /** The NIC exists. `rejectedSettings` lists the settings that the kernel rejected. */
  | { readonly kind: "there"; readonly rejectedSettings: readonly string[] };

/** NICs of the node. All calls are idempotent. */
export interface NodeNics {
  /** Returns the current state of the NIC; undefined if the NIC does not exist. @throws AppError with PODNET_FAILED */
  find(host: NetnsHandle, name: NodeNicName): Promise<NodeNic | undefined>;
  /**
   * Moves a NIC from a pod to the host under an unused name, without calling the NIC's CNI plugin. Succeeds if the NIC does not exist.
   * @throws AppError with PODNET_FAILED
   */
  returnToHost(pod: NetnsHandle, name: string, host: NetnsHandle): Promise<void>;
  /**
   * Restores the NIC's name, and then all other missing settings. Does not remove settings that were added later.
   * @throws AppError with PODNET_FAILED when the kernel cannot be queried
   */
  restore(host: NetnsHandle, nic: NodeNic): Promise<RestoredNic>;
}
