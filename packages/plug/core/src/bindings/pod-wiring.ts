// SPDX-License-Identifier: Apache-2.0
// What stands between a pod NIC and the guest, by how the iface is bound.

/** What a guest may send; frames that say otherwise end at its tap. */
export interface SendGuard {
  /** The only sources of its frames, lower case with colons. */
  readonly macs: readonly string[];
  /** Addresses and prefixes, the only ones that it may say it has; absent: any. */
  readonly addresses?: readonly string[];
  /** It may answer DHCP and advertise itself as a router. */
  readonly serves: boolean;
}

/** The pod gives the guest its addresses itself, so that answers of others do not reach it. */
export interface PodAnswers {
  /** The bridge's own addresses, ADDRESS/LENGTH, from which it answers; a family that has none here is left to others. */
  readonly addresses: readonly string[];
  /** Who gets what the guest sends by way of the bridge, as its router of IPv6; absent: the bridge is no router. */
  readonly gatewayMac?: string;
}

/** What each wiring has. Names of links have at most 15 characters. */
interface AnyWiring {
  readonly podInterfaceName: string;
  /** What the device opens. */
  readonly tapName: string;
  /** The guest's. */
  readonly mac: string;
  /** Bytes; the pod NIC's. */
  readonly mtu: number;
  readonly guard?: SendGuard;
  /**
   * The guest is elsewhere still, and comes: nothing of this may be taken for it by switches, and frames for nobody in
   * particular do not wait for it in the tap. Uid of the pod: of the pods that await one guest each is told apart.
   */
  readonly awaitedIn?: string;
}

/** A tap that is made for the guest, a port of a bridge that is made for it too. */
interface MadeTap extends AnyWiring {
  readonly bridgeName: string;
  /** Owner and group of the tap. */
  readonly owner: number;
  /** Pairs of queues of the tap, at least 1; fixed when it is made, and as many as its device has. */
  readonly queues: number;
}

/** The pod NIC is a port of the bridge too: the guest has its place on the network. */
export interface BridgeWiring extends MadeTap {
  readonly kind: "bridge";
  readonly answers?: PodAnswers;
}

/** One subnet of guest and pod behind the translation of addresses. */
export interface NatSubnet {
  /** The bridge's, with prefix length. */
  readonly gateway: string;
  /** The guest's, without. */
  readonly guest: string;
}

/** A port of the pod that is the guest's. */
export interface ForwardedPorts {
  readonly protocol: "tcp" | "udp";
  readonly first: number;
  /** The same as the first for one port. */
  readonly last: number;
}

/** The pod NIC stays outside the bridge, and keeps its addresses; the guest's are translated to them. */
export interface MasqueradeWiring extends MadeTap {
  readonly kind: "masquerade";
  readonly ipv4?: NatSubnet;
  readonly ipv6?: NatSubnet;
  /** What is let in; empty: all. */
  readonly ports: readonly ForwardedPorts[];
}

/** The device opens what the network's own plugin made: nothing is made for it and nothing removed. */
export interface TapWiring extends AnyWiring {
  readonly kind: "tap";
}

/** What stands between a pod NIC and the guest. */
export type PodWiring = BridgeWiring | MasqueradeWiring | TapWiring;

type Unseen = "owner" | "queues";
type WithoutUnseen<Wiring> = Wiring extends unknown ? Omit<Wiring, Unseen> : never;
/** A wiring as far as it can be seen to be there: a tap does not tell how it was made. */
export type SeenWiring = WithoutUnseen<PodWiring>;

type Named = "kind" | "podInterfaceName" | "tapName" | "bridgeName";
type OnlyNames<Wiring> = Wiring extends unknown ? Pick<Wiring, Named & keyof Wiring> : never;
/** What of a wiring is needed to take it apart. */
export type LeftWiring = OnlyNames<PodWiring>;

/** What is needed to take a wiring apart. */
export function leftOf(wiring: SeenWiring): LeftWiring {
  const { kind, podInterfaceName, tapName } = wiring;
  if (kind === "tap") return { kind, podInterfaceName, tapName };
  return { kind, podInterfaceName, tapName, bridgeName: wiring.bridgeName };
}
