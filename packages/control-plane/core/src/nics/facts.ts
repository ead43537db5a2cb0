// SPDX-License-Identifier: Apache-2.0
// Facts about one interface. Each field has one source.
import type { Attachment, ClusterSecurity, Iface, IfaceStatus, Network } from "@patchbay/api";
import type { RememberedAddresses } from "./addresses/lease.ts";
import type { Binding, BindingRefusal } from "./bindings/binding.ts";
import type { ReasonMessage } from "../reasons/messages.ts";
import type { SocketReason } from "./links/vhost-socket.ts";

export interface LinkFacts {
  readonly podInterface: boolean;
  /** Whether Patchbay's tap exists, which is deleted with the interface. */
  readonly tap: boolean;
  /** Whether Patchbay's bridge exists, which is deleted with the interface. */
  readonly bridge: boolean;
  /** Whether the wiring is complete. False until the pod network was observed. */
  readonly wired: boolean;
  /** Whether QEMU has the tap open, and the tap is the one that the device was observed with. */
  readonly tapOpen: boolean;
  readonly mtu: number;
  readonly mac?: string;
  readonly index?: number;
  /** Whether the pod NIC has addresses that were not moved to the guest yet. */
  readonly hasAddresses?: boolean;
  readonly addresses?: readonly string[];
  /** Name of the tap that the device opens. Unset if it is the default name for the pod NIC. */
  readonly tapName?: string;
  readonly tapIndex?: number;
  /** Whether a tap created by a CNI plugin has one queue pair or several. */
  readonly tapQueues?: "one" | "many";
  readonly socketProblem?: ReasonMessage<SocketReason>;
}

export interface GuestNicFacts {
  readonly name?: string;
  readonly ipv4?: readonly string[];
  readonly ipv6?: readonly string[];
}

export interface SwapFacts {
  readonly podInterfaceName: string;
  /** Unset until virt-controller has added it to the status. */
  readonly attachment?: Attachment;
  readonly links: LinkFacts;
  readonly remembered?: RememberedAddresses;
}

export interface DeviceFacts {
  readonly alias: string;
  readonly mac: string;
  readonly linkUp: boolean;
  readonly queues: number;
  readonly hasBootRom?: true;
  /** For example `0000:02:00.0`. Unset until libvirt has assigned it. */
  readonly pciAddress?: string;
  /** MTU that the device reports to the guest, in bytes. Unset if libvirt does not report one. */
  readonly mtu?: number;
  readonly speaksVhostUser?: true;
  readonly guest?: GuestNicFacts;
}

export interface IfaceFacts {
  readonly name: string;
  readonly iface?: Iface;
  readonly network?: Network;
  /** The binding, or why it is refused. For a deleted interface, the binding inferred from its links. */
  readonly binding: Binding | BindingRefusal;
  readonly security?: ClusterSecurity;
  readonly attachment?: Attachment;
  readonly podInterfaceName: string;
  readonly links: LinkFacts;
  readonly remembered?: RememberedAddresses;
  readonly device?: DeviceFacts;
  /** Whether a hook creates this NIC and the guest runs. libvirt may not list the NIC. */
  readonly madeByHook?: true;
  /** UID of the pod on this node that will receive the migrating guest. */
  readonly awaitedIn?: string;
  /** Unset if no network swap is pending. */
  readonly swap?: SwapFacts;
  /** Other pod NICs on which an unused bridge of Patchbay is left over. */
  readonly leftovers?: readonly string[];
  readonly reported?: IfaceStatus;
}

export const NO_LINKS: LinkFacts = {
  podInterface: false,
  tap: false,
  bridge: false,
  wired: false,
  tapOpen: false,
  mtu: 0,
};
