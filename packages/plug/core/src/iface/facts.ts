// SPDX-License-Identifier: Apache-2.0
// What each observer may say about one iface. One owner for each member.
import type { Attachment, ClusterSecurity, Iface, IfaceStatus, Network } from "@patchbay/api";
import type { RememberedAddresses } from "../addresses/lease.ts";
import type { Binding, BindingRefusal } from "../bindings/binding.ts";
import type { Told } from "../reasons/words.ts";
import type { SocketReason } from "./links/vhost-socket.ts";

/** The links of an iface, as the kernel has them. */
export interface LinkFacts {
  /** What CNI made is in the namespace. */
  readonly podInterface: boolean;
  /** Ours: made for the iface, and to be removed with it. */
  readonly tap: boolean;
  /** Ours too. */
  readonly bridge: boolean;
  /** Everything that wiring makes is there; false until the pod network has been asked. */
  readonly wired: boolean;
  /** Somebody has the tap open: QEMU, when there is a device, and it is the tap with which the device was seen. */
  readonly tapOpen: boolean;
  /** Bytes; the pod NIC's. */
  readonly mtu: number;
  /** The pod NIC's; absent without one. */
  readonly mac?: string;
  /** The pod NIC's index; absent without one. */
  readonly index?: number;
  /** The pod NIC has addresses of its own, which nobody has taken yet. */
  readonly hasAddresses?: boolean;
  /** The pod NIC's, ADDRESS/LENGTH; absent without one. */
  readonly addresses?: readonly string[];
  /** What the device opens; absent: the tap that is called after the pod NIC. */
  readonly tapName?: string;
  /** Of what the device opens; absent without it. */
  readonly tapIndex?: number;
  /** What the device opens was made by others, for one pair of queues or several. */
  readonly takesQueues?: "one" | "many";
  /** The device speaks vhost-user, and this keeps it from the socket that the plugin named; absent: nothing does. */
  readonly socketProblem?: Told<SocketReason>;
}

/** The word of the guest's agent on a NIC. */
export interface GuestNicFacts {
  readonly name?: string;
  /** Absent while it is not known whether there are any. */
  readonly ipv4?: readonly string[];
  readonly ipv6?: readonly string[];
}

/** Another network's NIC in the pod, which the device is to have after a network swap. */
export interface SwapFacts {
  readonly podInterfaceName: string;
  /** Absent while nobody has told of it. */
  readonly attachment?: Attachment;
  /** As they are around that NIC; wired when the swap is done. */
  readonly links: LinkFacts;
  /** What was taken from that NIC. */
  readonly remembered?: RememberedAddresses;
}

/** The NIC in the live domain. */
export interface DeviceFacts {
  readonly alias: string;
  readonly mac: string;
  readonly linkUp: boolean;
  /** Pairs of queues. */
  readonly queues: number;
  /** Whether firmware finds a boot ROM on it; absent: it finds none. */
  readonly hasBootRom?: true;
  /** For example `0000:02:00.0`; absent while libvirt has not placed it. */
  readonly pciAddress?: string;
  /** Bytes, as its guest is told; absent where libvirt does not say. */
  readonly mtu?: number;
  /** It speaks vhost-user. */
  readonly speaksVhostUser?: true;
  /** What the guest says of it; absent while it has not said anything. */
  readonly guest?: GuestNicFacts;
}

/** Everything that is known of one iface on its node. */
export interface IfaceFacts {
  readonly name: string;
  /** Entry of the VMI's spec; absent when it was deleted. */
  readonly iface?: Iface;
  readonly network?: Network;
  /** How it is bound, or why it cannot be; of one that was deleted, how its links look. */
  readonly binding: Binding | BindingRefusal;
  /** What the cluster says of what guests may send; absent: nothing. */
  readonly security?: ClusterSecurity;
  /** virt-controller's word on the pod. */
  readonly attachment?: Attachment;
  readonly podInterfaceName: string;
  readonly links: LinkFacts;
  /** What was taken from the pod NIC that is there. */
  readonly remembered?: RememberedAddresses;
  readonly device?: DeviceFacts;
  /** A hook was asked for its NIC, and the guest runs: libvirt need not know of it. */
  readonly madeByHook?: true;
  /** Its guest is on another node, and is to come to the pod with that uid on this one. */
  readonly awaitedIn?: string;
  /** Absent: the device is on the network that is wanted, or there is none. */
  readonly swap?: SwapFacts;
  /** Other NICs in the pod around which a bridge of ours is left that carries nothing; absent: none. */
  readonly left?: readonly string[];
  /** What was reported last. */
  readonly reported?: IfaceStatus;
}

/** No link at all. */
export const NO_LINKS: LinkFacts = {
  podInterface: false,
  tap: false,
  bridge: false,
  wired: false,
  tapOpen: false,
  mtu: 0,
};
