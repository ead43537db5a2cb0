// SPDX-License-Identifier: Apache-2.0
// What the node loop needs from the kernel, in a pod's network namespace.
import type { RememberedAddresses } from "../../addresses/lease.ts";
import type { BridgeWiring, LeftWiring, PodWiring, SeenWiring } from "../../bindings/pod-wiring.ts";
import type { NetnsHandle } from "../namespaces.ts";

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
  /** ADDRESS/LENGTH, of every scope, in the order of the kernel. */
  readonly addresses: readonly string[];
  /** Name of the bridge that it is a port of. */
  readonly master?: string;
  /** Of a tap: whether it takes one pair of queues, or several. */
  readonly takesQueues?: "one" | "many";
}

/** What was in a pod's namespace at one moment. */
export interface PodView {
  /** All links, sorted by name. */
  readonly links: readonly Link[];
  /** Whether everything that `wireTap` makes is there: every flag, every entry of the forwarding database. */
  readonly isWired: (wiring: SeenWiring) => boolean;
}

/** What a NIC had before somebody else used it. */
export interface LentNic {
  readonly name: string;
  /** Absent: it is left as it is. */
  readonly mac?: string;
  /** ADDRESS/LENGTH. */
  readonly addresses: readonly string[];
}

/** A NIC that somebody else has given another name. */
export interface RenamedNic {
  /** What it is called now. */
  readonly name: string;
  /** What it is to be called again. */
  readonly before: string;
  /** The MAC that it is to have again. */
  readonly mac?: string;
}

/** A guest's NIC as its network is told of it. */
export interface AnnouncedNic {
  /** By which it is told. */
  readonly podInterfaceName: string;
  /** The guest's. */
  readonly mac: string;
  /** ADDRESS or ADDRESS/LENGTH that are the guest's for certain. */
  readonly addresses: readonly string[];
}

/** Makes and removes links in a pod. Everything may be repeated. */
export interface PodNetwork {
  look(netns: NetnsHandle): Promise<PodView>;
  /** All links, sorted by name. */
  listLinks(netns: NetnsHandle): Promise<readonly Link[]>;
  /**
   * Makes what stands between the pod NIC and the guest: the recipes of docs/design/pod-links.md.
   * @throws AppError with PODNET_LINK_MISSING, PODNET_NETWORK_CANNOT_CARRY_VM, PODNET_FAILED
   */
  wireTap(netns: NetnsHandle, wiring: PodWiring): Promise<void>;
  /**
   * Makes that part of a wiring that is without the tap: the bridge, with the pod NIC on it. A tap that is on another
   * bridge stays there until `wireTap`.
   * @throws AppError with PODNET_LINK_MISSING, PODNET_NETWORK_CANNOT_CARRY_VM, PODNET_FAILED
   */
  makeBridge(netns: NetnsHandle, wiring: BridgeWiring): Promise<void>;
  /** Removes a bridge that `makeBridge` or `wireTap` made, and leaves its ports. Not there is success. */
  removeBridge(netns: NetnsHandle, bridgeName: string): Promise<void>;
  /** Removes what `wireTap` made, the tap first; what CNI made stays for CNI DEL. */
  unwireTap(netns: NetnsHandle, wiring: LeftWiring): Promise<void>;
  /**
   * What CNI gave to the NIC, and who answers for its gateway of IPv6, which is waited for a moment.
   * @throws AppError with PODNET_LINK_MISSING, PODNET_FAILED
   */
  readAddresses(netns: NetnsHandle, name: string): Promise<RememberedAddresses>;
  /**
   * Tells the network that a guest is behind that NIC of the pod: switches by its MAC, neighbours by its addresses.
   * @throws AppError with OS_FILE_FAILED where there is no such NIC, or it is down
   */
  announce(netns: NetnsHandle, nic: AnnouncedNic): Promise<void>;
  /**
   * Gives a NIC back what it lacks of what it had; for its MAC it is taken down. Not there is success.
   * @throws AppError with PODNET_FAILED
   */
  giveBack(netns: NetnsHandle, lent: LentNic): Promise<void>;
  /**
   * Removes a NIC past the plugin that made it; a card of the machine, which cannot be removed, goes back to the
   * machine's own namespace. Not there is success.
   */
  removeLink(netns: NetnsHandle, name: string): Promise<void>;
  /**
   * Gives a NIC its name back, and takes it off its bridge; a link that has the name meanwhile is removed. Not there is
   * success.
   * @throws AppError with PODNET_FAILED
   */
  restoreName(netns: NetnsHandle, nic: RenamedNic): Promise<void>;
}
