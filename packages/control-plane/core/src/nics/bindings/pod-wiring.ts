// SPDX-License-Identifier: Apache-2.0

/** Anti-spoofing rules. Other frames of the guest are dropped at its tap. */
export interface SendGuard {
  /** Allowed source MACs, lower case with colons. */
  readonly macs: readonly string[];
  /** Allowed source addresses and prefixes; unset for any. */
  readonly addresses?: readonly string[];
  /** Whether the guest may answer DHCP and send router advertisements. */
  readonly serves: boolean;
}

/** The pod itself serves the guest's addresses. Answers of other servers do not reach the guest. */
export interface PodReplies {
  /** The bridge's own addresses, ADDRESS/LENGTH. Without one in a family, other servers may answer in that family. */
  readonly addresses: readonly string[];
  /** MAC that receives what the guest sends through the bridge as its IPv6 router; unset if the bridge is no router. */
  readonly gatewayMac?: string;
}

/** Names of links have at most 15 characters. */
interface WiringBase {
  readonly podInterfaceName: string;
  readonly tapName: string;
  readonly mac: string;
  readonly mtu: number;
  readonly guard?: SendGuard;
  /**
   * UID of the migration target's pod while the guest is still elsewhere. Switches must not learn the guest's MAC here
   * yet, and the tap must not queue broadcasts. The UID distinguishes several target pods.
   */
  readonly awaitedIn?: string;
}

/** A tap on a bridge; both exist for this guest only. */
interface TapOnBridge extends WiringBase {
  readonly bridgeName: string;
  /** UID and GID of the tap's owner. */
  readonly owner: number;
  /** Queue pairs of the tap, at least 1. Fixed at creation and equal to the device's. */
  readonly queues: number;
}

/** The pod NIC is a port of the bridge. The guest takes its place on the network. */
export interface BridgeWiring extends TapOnBridge {
  readonly kind: "bridge";
  readonly replies?: PodReplies;
}

export interface NatSubnet {
  /** With prefix length. */
  readonly gateway: string;
  /** Without prefix length. */
  readonly guest: string;
}

export interface ForwardedPorts {
  readonly protocol: "tcp" | "udp";
  readonly first: number;
  /** Equal to `first` for a single port. */
  readonly last: number;
}

/** The pod NIC stays outside the bridge. The guest's addresses are translated to its addresses. */
export interface MasqueradeWiring extends TapOnBridge {
  readonly kind: "masquerade";
  readonly ipv4?: NatSubnet;
  readonly ipv6?: NatSubnet;
  /** Forwarded ports; empty for all. */
  readonly ports: readonly ForwardedPorts[];
}

/** The network's plugin made the tap. Patchbay neither creates nor removes links. */
export interface TapWiring extends WiringBase {
  readonly kind: "tap";
}

export type PodWiring = BridgeWiring | MasqueradeWiring | TapWiring;

type Unobservable = "owner" | "queues";
type OmitUnobservable<Wiring> = Wiring extends unknown ? Omit<Wiring, Unobservable> : never;
/** The observable part of a wiring. A tap's owner and queues cannot be read back. */
export type ObservedWiring = OmitUnobservable<PodWiring>;

type NameFields = "kind" | "podInterfaceName" | "tapName" | "bridgeName";
type OnlyNames<Wiring> = Wiring extends unknown ? Pick<Wiring, NameFields & keyof Wiring> : never;
export type RemovableWiring = OnlyNames<PodWiring>;

export function toRemovableWiring(wiring: ObservedWiring): RemovableWiring {
  const { kind, podInterfaceName, tapName } = wiring;
  if (kind === "tap") return { kind, podInterfaceName, tapName };
  return { kind, podInterfaceName, tapName, bridgeName: wiring.bridgeName };
}
