// SPDX-License-Identifier: Apache-2.0
import type { Attachment, ClusterSecurity, Iface, IfaceStatus, Network } from "@patchbay/api";
import type { NicPolicy } from "../policies/index.ts";
import type { RememberedAddresses } from "./addresses/lease.ts";
import type { Binding, BindingRefusal } from "./bindings/binding.ts";
import type { ReasonMessage } from "../reasons/messages.ts";
import type { SocketReason } from "./links/vhost-socket.ts";

export interface LinkFacts {
  readonly hasPodInterface: boolean;
  /** Whether a tap that Patchbay created exists. */
  readonly hasTap: boolean;
  /** Whether a bridge that Patchbay created exists. */
  readonly hasBridge: boolean;
  /** Whether the wiring is complete. False until the pod network is observed. */
  readonly isWired: boolean;
  /** Whether the rules at the tap differ from the network policies. */
  readonly isPolicyOutdated?: true;
  /** Whether QEMU has this tap open. False if QEMU has a deleted tap with the same name open. */
  readonly isTapOpen: boolean;
  /** MTU of the pod NIC in bytes, or of the tap if a CNI plugin created it. 0 if neither exists. */
  readonly mtu: number;
  readonly mac?: string;
  readonly index?: number;
  /** Whether the pod NIC has addresses that wiring must still move to the guest. */
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
  /** Unset until virt-controller adds the attachment to the status. */
  readonly attachment?: Attachment;
  readonly links: LinkFacts;
  readonly remembered?: RememberedAddresses;
  /** Traffic that network policies allow on the new network. */
  readonly policy?: NicPolicy;
}

export interface DeviceFacts {
  readonly alias: string;
  readonly mac: string;
  readonly linkUp: boolean;
  readonly queues: number;
  readonly hasBootRom?: true;
  /** PCI address such as `0000:02:00.0`. Unset until libvirt assigns an address. */
  readonly pciAddress?: string;
  /** MTU that the device reports to the guest, in bytes. Unset if libvirt reports no MTU. */
  readonly mtu?: number;
  readonly isVhostUser?: true;
  readonly guest?: GuestNicFacts;
}

export interface IfaceFacts {
  readonly name: string;
  readonly iface?: Iface;
  readonly network?: Network;
  /** Binding, or why it is refused. For an interface that was deleted from the spec, the binding is inferred from the links. */
  readonly binding: Binding | BindingRefusal;
  readonly security?: ClusterSecurity;
  readonly policy?: NicPolicy;
  readonly attachment?: Attachment;
  readonly podInterfaceName: string;
  readonly links: LinkFacts;
  readonly remembered?: RememberedAddresses;
  readonly device?: DeviceFacts;
  /** Whether a hook created this NIC in the running guest. libvirt may not list such a NIC. */
  readonly isMadeByHook?: true;
  /** UID of the pod on this node. Set while the guest is migrating to this node. */
  readonly incomingPodUid?: string;
  /** Whether the pod on this node was created with a service mesh's proxy. */
  readonly isMeshed?: true;
  /** Pod NIC on the new network during a network swap. */
  readonly swap?: SwapFacts;
  /** Pod NICs of earlier networks whose bridges still exist after a network swap. */
  readonly leftovers?: readonly string[];
  readonly reported?: IfaceStatus;
  /** Addresses that the guest announced at its tap. Unset if the guest announced no address. Only the status may use them. */
  readonly learned?: readonly string[];
}

/** Minimum MTU of IPv6. The kernel removes all IPv6 addresses of a link with a smaller MTU. Source: RFC 8200 section 5 */
const IPV6_MTU_MIN = 1280;

interface MtuFacts extends Pick<IfaceFacts, "iface" | "remembered"> {
  readonly links?: Pick<Partial<LinkFacts>, "mtu" | "addresses">;
}

function findMinMtu({ remembered, links }: MtuFacts): number {
  const addresses = remembered?.addresses ?? links?.addresses ?? [];
  return addresses.some((address) => address.includes(":")) ? IPV6_MTU_MIN : 0;
}

/**
 * Returns the MTU of the interface: the requested MTU, at least 1280 if the pod NIC has IPv6 addresses, and at most the pod NIC's MTU.
 * 0 if neither MTU is known.
 */
export function findMtu(facts: MtuFacts): number {
  const { mtu = 0 } = facts.links ?? {};
  const requested =
    facts.iface?.mtu === undefined ? mtu : Math.max(facts.iface.mtu, findMinMtu(facts));
  return mtu === 0 ? requested : Math.min(requested, mtu);
}

export const NO_LINKS: LinkFacts = {
  hasPodInterface: false,
  hasTap: false,
  hasBridge: false,
  isWired: false,
  isTapOpen: false,
  mtu: 0,
};
