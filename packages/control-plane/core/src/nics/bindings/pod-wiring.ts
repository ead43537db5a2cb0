// SPDX-License-Identifier: Apache-2.0
import type { NicPolicy } from "../../policies/index.ts";
import type { AnsweredNeighbor } from "../addresses/lease.ts";

/** Anti-spoofing rules. The pod drops frames from the guest that violate these rules. */
export interface SendGuard {
  /** Allowed source MACs, lower case with colons. */
  readonly macs: readonly string[];
  /** Allowed source IP addresses and prefixes. Unset: all are allowed. */
  readonly addresses?: readonly string[];
  /** Whether the guest may act as DHCP server and send router advertisements. */
  readonly allowsServers: boolean;
}

/** Neighbors that do not answer ARP. The bridge answers the guest's ARP requests in their place. */
export interface ArpReplies {
  /** First IPv4 address of the guest, without prefix length. */
  readonly guestAddress: string;
  readonly neighbors: readonly AnsweredNeighbor[];
}

export interface PodReplies {
  /**
   * Addresses of the bridge, as ADDRESS/LENGTH. The pod drops replies of other DHCP servers and IPv6 routers in the families of these
   * addresses.
   */
  readonly addresses: readonly string[];
  /** MAC of the IPv6 gateway to which the bridge forwards the guest's packets. Unset if the bridge is not the guest's router. */
  readonly gatewayMac?: string;
  /** Unset if the network has no permanent IPv4 neighbors. */
  readonly arp?: ArpReplies;
  /** Permanent IPv6 neighbors, for which the bridge answers neighbor solicitations. Unset if the pod NIC has no such neighbors. */
  readonly solicited?: readonly AnsweredNeighbor[];
}

export interface TokenBucket {
  readonly bytesPerSecond: number;
  readonly burstBytes: number;
}

/** Limit of one direction of a guest's traffic. Frames that exceed it wait in a queue. Source: tc-tbf(8) */
export interface RateLimit {
  readonly average: TokenBucket;
  /** Limits the rate within a burst. Unset: the rate within a burst is not limited. */
  readonly peak?: TokenBucket;
  /** Size of the queue. Frames that do not fit into the queue are dropped. */
  readonly queueBytes: number;
}

/** Fields of all wirings. Names of links have at most 15 characters. */
interface WiringBase {
  readonly podInterfaceName: string;
  readonly tapName: string;
  readonly mac: string;
  readonly mtu: number;
  readonly guard?: SendGuard;
  /** Traffic that network policies allow. Unset if no policy selects the pod. */
  readonly policy?: NicPolicy;
  /** Limits of the traffic to the guest (inbound) and from the guest (outbound). Unset for taps of plugins. */
  readonly limits?: { readonly inbound?: RateLimit; readonly outbound?: RateLimit };
  /**
   * UID of the target pod of a migration. Set while the guest still runs on the source node: until the guest arrives, switches must not
   * learn its MAC from this node, and the tap must not queue broadcasts.
   */
  readonly incomingPodUid?: string;
}

/** Fields of wirings with a tap on a bridge. The tap and the bridge exist only for this guest. */
interface TapOnBridge extends WiringBase {
  readonly bridgeName: string;
  /** UID and GID of the tap's owner. */
  readonly owner: number;
  /** Number of queue pairs of the tap, at least 1. It is fixed at creation and must equal the device's number of queue pairs. */
  readonly queues: number;
}

/** A wiring in which the pod NIC is a port of the bridge. On the network, the guest takes the place of the pod NIC. */
export interface BridgeWiring extends TapOnBridge {
  readonly kind: "bridge";
  readonly replies?: PodReplies;
}

export interface NatSubnet {
  /** Address of the gateway, with prefix length. */
  readonly gateway: string;
  /** Address of the guest, without prefix length. */
  readonly guest: string;
}

export interface ForwardedPorts {
  readonly protocol: "tcp" | "udp";
  readonly first: number;
  /** Last port of the range. Equal to `first` for a single port. */
  readonly last: number;
}

export interface MeshWiring {
  /** IPv4 address of the pod NIC, to which the proxy connects. Unset on a network without IPv4. */
  readonly podIpv4?: string;
}

/** A wiring in which the pod NIC is not on the bridge. The guest's addresses are translated to those of the pod NIC. */
export interface MasqueradeWiring extends TapOnBridge {
  readonly kind: "masquerade";
  readonly ipv4?: NatSubnet;
  readonly ipv6?: NatSubnet;
  /** Ports that are forwarded to the guest. An empty list means all ports. */
  readonly ports: readonly ForwardedPorts[];
  /** Set if a service mesh's proxy in the pod receives the guest's TCP connections. */
  readonly mesh?: MeshWiring;
}

/** A wiring whose tap the network's plugin created. Patchbay creates and removes no links for this wiring. */
export interface TapWiring extends WiringBase {
  readonly kind: "tap";
}

export type PodWiring = BridgeWiring | MasqueradeWiring | TapWiring;

type Unobservable = "owner" | "queues";
type OmitUnobservable<Wiring> = Wiring extends unknown ? Omit<Wiring, Unobservable> : never;
/** A wiring without the tap's owner and queues, which cannot be observed. */
export type ObservedWiring = OmitUnobservable<PodWiring>;

type NameFields = "kind" | "podInterfaceName" | "tapName" | "bridgeName";
type OnlyNames<Wiring> = Wiring extends unknown ? Pick<Wiring, NameFields & keyof Wiring> : never;
export type RemovableWiring = OnlyNames<PodWiring>;

export function toRemovableWiring(wiring: ObservedWiring): RemovableWiring {
  const { kind, podInterfaceName, tapName } = wiring;
  if (kind === "tap") return { kind, podInterfaceName, tapName };
  return { kind, podInterfaceName, tapName, bridgeName: wiring.bridgeName };
}
