// SPDX-License-Identifier: Apache-2.0
// What a way of binding an iface to its network is: the same few answers of each.
import type { Iface, Network } from "@patchbay/api";
import type { GuestLease } from "../addresses/lease.ts";
import type { RememberedAddresses } from "../addresses/nic-addresses.ts";
import type { SeenWiring } from "./pod-wiring.ts";

/** Every way that is built. The last three are asked for by the name of a plugin that the cluster has registered. */
export type BindingKind = "bridge" | "masquerade" | "managedTap" | "tap" | "vhostuser" | "hook";

/** How an iface is bound. */
export interface Binding {
  readonly kind: BindingKind;
  /** NAME, or NAMESPACE/NAME, of a network definition that the pod joins beside the iface's own network. */
  readonly extraNetwork?: string;
  /** A hook is asked about it at the guest's start, and joins no pod that runs. */
  readonly hasHook?: true;
}

/** Why an iface gets no NIC. */
export interface BindingRefusal {
  readonly kind: "refused";
  /** The field, below the iface. */
  readonly field: string;
  /** Stable, in CamelCase; listed in docs/reference/phases.md. */
  readonly reason: "BindingNotSupported" | "FieldNotSupported";
  /** No full sentence: the field comes before it. */
  readonly message: string;
  /** How the links look that it has all the same; absent where nobody has looked. */
  readonly left?: BindingKind;
}

/** What a wiring is made from. */
export interface WiringFacts {
  readonly podInterfaceName: string;
  readonly bridgeName: string;
  readonly tapName: string;
  /** The guest's. */
  readonly mac: string;
  /** Bytes; the pod NIC's. */
  readonly mtu: number;
  /** The pod NIC's, ADDRESS/LENGTH. */
  readonly podAddresses: readonly string[];
  /** Absent when it was deleted. */
  readonly iface?: Iface;
  readonly network?: Network;
  /** What the pod NIC had before it was wired. */
  readonly remembered?: RememberedAddresses;
}

/** What of an iface with this binding can be changed while the guest runs. */
export interface LiveChanges {
  /** It comes and goes. */
  readonly plug: boolean;
  /** Its link goes up and down. */
  readonly link: boolean;
  /** It joins another network, and the device stays. */
  readonly network: boolean;
}

/** One way of binding. */
export interface BindingModule {
  readonly kind: BindingKind;
  /** What it needs of the kernel in the pod; undefined: nothing. */
  readonly wiringOf: (facts: WiringFacts) => SeenWiring | undefined;
  /** The tap that the device opens, of the links that are there (by name); empty: it opens none. */
  readonly tapOf: (
    names: Pick<WiringFacts, "podInterfaceName" | "tapName">,
    links: ReadonlySet<string>,
  ) => string;
  readonly live: LiveChanges;
  /** The guest may have another MAC than CNI gave the pod NIC. */
  readonly takesAnyMac: boolean;
  /** Wiring takes the addresses from the pod NIC: they are written down before. */
  readonly takesAddresses: boolean;
  /** What the pod gives the guest by DHCP; undefined: nothing, and it leaves others to do so. */
  readonly leaseOf: (facts: WiringFacts) => GuestLease | undefined;
  /** Whose addresses the status shows: those that the guest has, or the pod's, behind which the guest is hidden. */
  readonly addressesOf: "guest" | "pod";
}
