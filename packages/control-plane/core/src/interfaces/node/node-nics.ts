// SPDX-License-Identifier: Apache-2.0
// Borrowed host NICs: moving a NIC of the node into a pod, and restoring it.
import type { NetnsHandle } from "../namespaces.ts";

/** How a plugin's configuration identifies a NIC of the node. Source: CNI plugin host-device. */
export type NodeNicName =
  | { readonly by: "name"; readonly name: string }
  | { readonly by: "mac"; readonly mac: string }
  /** Absolute path of the device below /sys/devices. */
  | { readonly by: "kernelPath"; readonly path: string }
  /** PCI address, or name of an auxiliary device. */
  | { readonly by: "device"; readonly id: string };

export interface NodeNic {
  readonly name: string;
  /** ifindex when the NIC was read. `addresses` and `routes` contain it. */
  readonly index: number;
  /** Kind of link, as in {@link Link.kind}. Empty for hardware. */
  readonly kind: string;
  readonly mac: string;
  /** The hardware's MAC. Unset if the kernel knows none. */
  readonly permanentMac?: string;
  readonly mtu: number;
  readonly up: boolean;
  /** Alias of the link, usually empty. Source: ip-link(8), alias */
  readonly alias: string;
  /**
   * Addresses as kernel attributes in base64, in the kernel's order, without addresses that the kernel assigns itself.
   * Source: struct ifaddrmsg and its attributes.
   */
  readonly addresses: readonly string[];
  /** Routes of the main table through the NIC, as kernel attributes in base64. Source: struct rtmsg and its attributes. */
  readonly routes: readonly string[];
}

export type RestoredNic =
  | { readonly kind: "absent" }
  /** `rejectedSettings`: settings that the kernel rejected. Empty if the NIC is fully restored. */
  | { readonly kind: "there"; readonly rejectedSettings: readonly string[] };

/** NICs of the node. All calls are idempotent. */
export interface NodeNics {
  /** Returns the current state of the NIC; undefined if there is none. @throws AppError with PODNET_FAILED */
  find(host: NetnsHandle, name: NodeNicName): Promise<NodeNic | undefined>;
  /**
   * Moves a NIC out of a pod without its CNI plugin, under an unused name. A missing NIC is success.
   * @throws AppError with PODNET_FAILED
   */
  returnToHost(pod: NetnsHandle, name: string, host: NetnsHandle): Promise<void>;
  /**
   * Restores the NIC's name first, then all other settings that are missing. Additional settings stay.
   * @throws AppError with PODNET_FAILED when the kernel cannot be queried
   */
  restore(host: NetnsHandle, nic: NodeNic): Promise<RestoredNic>;
}
