// SPDX-License-Identifier: Apache-2.0
import type { NicNeighbor, RememberedAddresses } from "../../nics/addresses/lease.ts";
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
  /** Kind of the link, for example `veth`, `macvlan`, `bridge` or `tun`. Empty for a physical NIC. */
  readonly kind: string;
  readonly mac: string;
  readonly mtu: number;
  readonly up: boolean;
  /** Whether the link has a carrier (flag LOWER_UP). A tap has a carrier while a process has the tap open. */
  readonly carrier: boolean;
  /** Addresses as ADDRESS/LENGTH, of all scopes, in the kernel's order. */
  readonly addresses: readonly string[];
  readonly master?: string;
  /** Whether a tap has one queue pair or several. Unset for other links. */
  readonly tapQueues?: "one" | "many";
}

export interface PodView {
  readonly links: readonly Link[];
  /** Returns whether all links, flags and forwarding entries that `wireTap` creates exist. */
  readonly isWired: (wiring: ObservedWiring) => boolean;
  /** Returns whether the tap has exactly the rules of the wiring's policy. */
  readonly hasPolicy: (wiring: ObservedWiring) => boolean;
}

export interface NicPaths {
  /** Routes of the main table that the kernel did not add itself, as netlink messages in Base64. */
  readonly routes: readonly string[];
  readonly neighbors: readonly NicNeighbor[];
}

export interface BorrowedNic {
  readonly name: string;
  /** MAC to restore. Unset: the MAC is not changed. */
  readonly mac?: string;
  /** Addresses to restore, as ADDRESS/LENGTH. */
  readonly addresses: readonly string[];
  /** Routes and neighbors to restore. Unset if net-agent did not record them. */
  readonly paths?: NicPaths;
}

export interface RenamedNic {
  readonly name: string;
  readonly originalName: string;
  readonly mac?: string;
}

export interface AnnouncedNic {
  readonly podInterfaceName: string;
  readonly mac: string;
  /**
   * Addresses to announce, as ADDRESS or ADDRESS/LENGTH. Must be addresses of the guest, because the announcement makes other hosts send
   * frames for these addresses to the guest.
   */
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
  /** Replaces the rules of the policy at an existing tap, in one transaction. @throws AppError with PODNET_FAILED */
  applyPolicy(netns: NetnsHandle, wiring: ObservedWiring): Promise<void>;
  /**
   * Creates a wiring's bridge, with the pod NIC as a port. If the tap is a port of another bridge, it remains there until `wireTap` is
   * called.
   * @throws AppError with PODNET_LINK_MISSING, PODNET_NETWORK_CANNOT_CARRY_VM, PODNET_FAILED
   */
  makeBridge(netns: NetnsHandle, wiring: BridgeWiring): Promise<void>;
  /** Removes a bridge that `makeBridge` or `wireTap` created, without removing its ports. Succeeds if the bridge does not exist. */
  removeBridge(netns: NetnsHandle, bridgeName: string): Promise<void>;
  /** Removes the links that `wireTap` created, the tap first. The pod NIC remains for CNI DEL. */
  unwireTap(netns: NetnsHandle, wiring: RemovableWiring): Promise<void>;
  /**
   * Reads the addresses and routes that CNI configured on the NIC, and resolves the MAC of the IPv6 gateway.
   * @throws AppError with PODNET_LINK_MISSING, PODNET_FAILED
   */
  readAddresses(netns: NetnsHandle, name: string): Promise<RememberedAddresses>;
  /**
   * Announces the guest's MAC to switches and its addresses to neighbors, through the pod NIC.
   * @throws AppError with OS_FILE_FAILED when the NIC does not exist or is down
   */
  announce(netns: NetnsHandle, nic: AnnouncedNic): Promise<void>;
  /** Reads the routes and permanent neighbors of the NIC. Returns undefined if the NIC does not exist. */
  readPaths(netns: NetnsHandle, name: string): Promise<NicPaths | undefined>;
  /** Restores the NIC's MAC, addresses, routes and permanent neighbors, if the NIC exists. @throws AppError with PODNET_FAILED */
  restoreNic(netns: NetnsHandle, borrowed: BorrowedNic): Promise<void>;
  /** Removes a NIC without calling its CNI plugin. A hardware NIC moves to the node's namespace. Succeeds if the NIC does not exist. */
  removeLink(netns: NetnsHandle, name: string): Promise<void>;
  /**
   * Deletes any other link named `originalName`, renames the NIC to `originalName`, and removes the NIC from its bridge.
   * Succeeds if the NIC does not exist.
   * @throws AppError with PODNET_FAILED
   */
  restoreName(netns: NetnsHandle, nic: RenamedNic): Promise<void>;
}
