// SPDX-License-Identifier: Apache-2.0
// What the node loop needs from the kernel, in a pod's network namespace.
import type { NetnsHandle } from "./namespaces.ts";

/** A kernel device. Source: `ip -j -d link`. */
export interface Link {
  readonly name: string;
  readonly index: number;
  /** `veth`, `macvlan`, `bridge`, `tun`, ...; empty for hardware. */
  readonly kind: string;
  readonly mac: string;
  /** Bytes. */
  readonly mtu: number;
  readonly up: boolean;
  /** Of a tap: somebody has it open. */
  readonly carrier: boolean;
  /** Name of the bridge that it is a port of. */
  readonly master?: string;
}

/** What carries a guest's NIC: pod NIC, bridge and tap. Names have at most 15 characters. */
export interface TapWiring {
  readonly podInterfaceName: string;
  readonly bridgeName: string;
  readonly tapName: string;
  /** MAC of the guest, which the pod NIC has too. */
  readonly mac: string;
  /** Bytes; the pod NIC's. */
  readonly mtu: number;
  /** Owner and group of the tap. */
  readonly owner: number;
  /** Pairs of queues of the tap, at least 1; fixed when it is made. */
  readonly queues: number;
}

/** What was in a pod's namespace at one moment. */
export interface PodView {
  /** All links, sorted by name. */
  readonly links: readonly Link[];
  /** Whether everything that `wireTap` makes is there: every flag, every entry of the forwarding database. */
  readonly isWired: (wiring: Omit<TapWiring, "owner" | "queues">) => boolean;
}

/** Makes and removes links in a pod. Everything may be repeated. */
export interface PodNetwork {
  look(netns: NetnsHandle): Promise<PodView>;
  /** All links, sorted by name. */
  listLinks(netns: NetnsHandle): Promise<readonly Link[]>;
  /**
   * Makes bridge and tap around the pod NIC: the recipe of docs/design/pod-links.md.
   * @throws AppError with PODNET_LINK_MISSING, PODNET_NETWORK_CANNOT_CARRY_VM, PODNET_FAILED
   */
  wireTap(netns: NetnsHandle, wiring: TapWiring): Promise<void>;
  /** Removes the tap, then the bridge; the pod NIC stays for CNI DEL. */
  unwireTap(netns: NetnsHandle, wiring: Pick<TapWiring, "tapName" | "bridgeName">): Promise<void>;
  /**
   * Removes a NIC past the plugin that made it; a card of the machine, which cannot be removed, goes back to the
   * machine's own namespace. Not there is success.
   */
  removeLink(netns: NetnsHandle, name: string): Promise<void>;
}
