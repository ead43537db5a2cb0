// SPDX-License-Identifier: Apache-2.0
import type { RememberedAddresses } from "../../nics/addresses/lease.ts";
import type {
  BridgeWiring,
  RemovableWiring,
  PodWiring,
  ObservedWiring,
} from "../../nics/bindings/pod-wiring.ts";
import type { NetnsHandle } from "../namespaces.ts";

/** A kernel link. Source: `ip -j -d link`. */
export interface Link {
  readonly name: string;
  readonly index: number;
  /** `veth`, `macvlan`, `bridge`, `tun`, ...; empty for hardware. */
  readonly kind: string;
  readonly mac: string;
  readonly mtu: number;
  readonly up: boolean;
  /** Whether the link has a carrier. A tap has one while a process has it open. */
  readonly carrier: boolean;
  /** Addresses as ADDRESS/LENGTH, of all scopes, in the kernel's order. */
  readonly addresses: readonly string[];
  readonly master?: string;
  /** Whether a tap has one queue pair or several. Unset for other links. */
  readonly tapQueues?: "one" | "many";
}

export interface PodView {
  readonly links: readonly Link[];
  /** Returns whether everything that `wireTap` creates exists, including flags and forwarding entries. */
  readonly isWired: (wiring: ObservedWiring) => boolean;
}

export interface BorrowedNic {
  readonly name: string;
  /** MAC to restore. Unset: the MAC stays unchanged. */
  readonly mac?: string;
  /** Addresses to restore, as ADDRESS/LENGTH. */
  readonly addresses: readonly string[];
}

export interface RenamedNic {
  readonly name: string;
  readonly before: string;
  readonly mac?: string;
}

export interface AnnouncedNic {
  readonly podInterfaceName: string;
  readonly mac: string;
  /** Addresses that belong to the guest for certain, as ADDRESS or ADDRESS/LENGTH. */
  readonly addresses: readonly string[];
}

/** Creates and removes links in a pod. All calls are idempotent. */
export interface PodNetwork {
  observe(netns: NetnsHandle): Promise<PodView>;
  listLinks(netns: NetnsHandle): Promise<readonly Link[]>;
  /**
   * Creates the links between pod NIC and guest as described in docs/design/pod-links.md.
   * @throws AppError with PODNET_LINK_MISSING, PODNET_NETWORK_CANNOT_CARRY_VM, PODNET_FAILED
   */
  wireTap(netns: NetnsHandle, wiring: PodWiring): Promise<void>;
  /**
   * Creates a wiring without its tap: the bridge with the pod NIC as a port. A tap on another bridge stays there until
   * `wireTap` is called.
   * @throws AppError with PODNET_LINK_MISSING, PODNET_NETWORK_CANNOT_CARRY_VM, PODNET_FAILED
   */
  makeBridge(netns: NetnsHandle, wiring: BridgeWiring): Promise<void>;
  /** Removes a bridge that `makeBridge` or `wireTap` created, without removing its ports. A missing bridge is success. */
  removeBridge(netns: NetnsHandle, bridgeName: string): Promise<void>;
  /** Removes the links that `wireTap` created, the tap first. The pod NIC stays for CNI DEL. */
  unwireTap(netns: NetnsHandle, wiring: RemovableWiring): Promise<void>;
  /**
   * Reads the NIC's addresses and routes from CNI, and the MAC of its IPv6 gateway, which may take a moment to resolve.
   * @throws AppError with PODNET_LINK_MISSING, PODNET_FAILED
   */
  readAddresses(netns: NetnsHandle, name: string): Promise<RememberedAddresses>;
  /**
   * Announces the guest behind the pod NIC: its MAC to switches, its addresses to neighbors.
   * @throws AppError with OS_FILE_FAILED when the NIC does not exist or is down
   */
  announce(netns: NetnsHandle, nic: AnnouncedNic): Promise<void>;
  /**
   * Restores the NIC's settings. Sets the NIC down while it changes the MAC. A missing NIC is success.
   * @throws AppError with PODNET_FAILED
   */
  restoreNic(netns: NetnsHandle, borrowed: BorrowedNic): Promise<void>;
  /**
   * Removes a NIC without its CNI plugin. A hardware NIC cannot be removed and is moved to the node's namespace instead. A
   * missing NIC is success.
   */
  removeLink(netns: NetnsHandle, name: string): Promise<void>;
  /**
   * Renames the NIC to `before` and removes it from its bridge. Deletes another link with that name. A missing NIC is
   * success.
   * @throws AppError with PODNET_FAILED
   */
  restoreName(netns: NetnsHandle, nic: RenamedNic): Promise<void>;
}
