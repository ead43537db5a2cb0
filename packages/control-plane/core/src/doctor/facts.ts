// SPDX-License-Identifier: Apache-2.0
import type { FixValues, HopName } from "./report.ts";

export interface PathLink {
  readonly name: string;
  readonly kind: string;
  readonly mac: string;
  readonly mtu: number;
  readonly up: boolean;
  readonly carrier: boolean;
  readonly master?: string;
  /** Addresses in the form ADDRESS/LENGTH. */
  readonly addresses: readonly string[];
  readonly isBlocked: boolean;
  readonly canFilterVlans: boolean;
  /** Set if a bridge neither broadcasts to this port nor answers ARP for hosts behind it. */
  readonly dropsBroadcasts?: true;
  /** VLAN of untagged frames on a bridge or port. Unset if the link drops untagged frames. */
  readonly untaggedVlan?: number;
  readonly vlans: readonly number[];
}

/** Links of a path by hop. Unset links do not exist or cannot be observed. */
export interface PathLinks {
  readonly tap?: PathLink;
  readonly podBridge?: PathLink;
  readonly podNic?: PathLink;
  readonly nodePeer?: PathLink;
  readonly nodeBridge?: PathLink;
  /** Bridges, one of which probably lost port `nodePeer`. Set only if `nodePeer` is in no bridge. */
  readonly bridges?: readonly PathLink[];
  /** Bridge ports that lead out of the node, or only the parent of a non-veth NIC. */
  readonly uplinks: readonly PathLink[];
  /** Kind of the node's link that connects the pod NIC; `unseen` if not observable. */
  readonly onNode: "peer" | "parent" | "unseen";
}

export interface WiringFault {
  readonly link: string;
  readonly what: "link" | "up" | "master" | "mac" | "learning" | "entry" | "rules" | "other";
  readonly description: string;
}

/** Kind of probe frame. `*Large` frames are as large as the NIC's MTU allows. */
export type ProbeName =
  // An ARP or IPv6 neighbor request from the node's side to the guest.
  | "inward"
  | "inwardLarge"
  // A neighbor request to the network, with the guest as sender.
  | "outward"
  | "outwardLarge"
  // A ping to the network, with the guest as sender.
  | "echo"
  | "echoLarge"
  // A ping whose checksum a link must complete, as in TCP frames of a guest.
  | "echoPartial"
  // A neighbor request for the guest's own address.
  | "own"
  // A request for a DHCP offer.
  | "dhcp"
  // An ICMP request to the guest, with its gateway as sender.
  | "ping"
  // A TCP request to the guest, with its gateway as sender.
  | "connect"
  // A TCP request to the pod, with the gateway as sender. The pod must translate the request for the guest.
  | "through"
  // A ping to the guest, with a host of another network behind the gateway as sender.
  | "beyond";

export interface FrameTrace {
  readonly probe: ProbeName;
  readonly refused?: string;
  readonly probeSeenAt: readonly HopName[];
  readonly replySeenAt: readonly HopName[];
  readonly repliedFrom: readonly string[];
  readonly repliedTo: readonly string[];
}

export interface LossCount {
  readonly probe: "ping" | "echo";
  readonly sent: number;
  readonly probes: Partial<Record<HopName, number>>;
  readonly replies: Partial<Record<HopName, number>>;
}

export type Place = "pod" | "node";

export interface FixedNeighbor {
  readonly at: Place;
  readonly link: string;
  readonly address: string;
  readonly mac: string;
}

/** Static forwarding entry that sends frames for guest or gateway outside the NIC's path. */
export interface FixedEntry {
  readonly at: Place;
  readonly port: string;
  readonly mac: string;
}

export interface RouteFault {
  readonly at: Place;
  readonly command: string;
  readonly problem: string;
}

export interface FrameFilter {
  readonly at: Place;
  /** Name of the filtered link. Unset if the filter applies to all bridges of the network namespace. */
  readonly link?: string;
  readonly command: string;
}

/** An nftables chain in the pod that can drop forwarded packets. Patchbay's own chains are not included. */
export interface PacketFilter {
  readonly command: string;
  /** Whether the chain certainly drops all packets to or from the guest. */
  readonly dropsAll: boolean;
}

export interface ForwardedPing {
  readonly link: string;
  readonly gateway: string;
  readonly sentAs: "no" | "asGuest" | "asNode";
  readonly hasReply: boolean;
  readonly repliesToNode: boolean;
}

/** The guest's answer to the probe `beyond`. The guest sends this answer along its default route. */
export interface GuestRoute {
  readonly trace: FrameTrace;
  /** IPv4 addresses whose MAC the guest requested while the doctor sent probes. */
  readonly requested: readonly string[];
}

export interface NodeUplinkFault {
  readonly problem: "noRoute" | "down" | "noCarrier";
  /** Link of the default route, or the first uplink if all uplinks are down. */
  readonly link?: string;
}

export interface RefusedFrames {
  readonly description: string;
  /** Whether frames were refused for their IPv4 source address. Only such a refusal can prove faults. */
  readonly isOfIpv4Address: boolean;
  readonly frames: number;
  readonly recentFrames: number;
}

/** Host that outward probes address: the node, a host behind a port, or beyond the uplink. */
export interface ProbeTarget {
  readonly address: string;
  readonly at: "bridge" | "port" | "beyond";
  /** Set for another guest, which may be stopped, so a missing reply proves no fault. */
  readonly isGuest?: true;
  /** Set if no route uses CNI's gateway, whose missing reply therefore proves no fault. */
  readonly isUnrouted?: true;
  readonly isDefault?: true;
  /** Set if the node lacks the gateway's address, although NAT rules make the node the gateway. */
  readonly isMissing?: true;
}

export interface ObservedPath {
  /** Whether frames leave with the guest's MAC. If not, outward probes use the pod NIC's MAC. */
  readonly isBridged: boolean;
  readonly links: PathLinks;
  readonly wiringFaults: readonly WiringFault[];
  readonly traces: readonly FrameTrace[];
  /** Refused frames by reason, most frequent first. Empty if the guest may send any frame. */
  readonly refused: readonly RefusedFrames[];
  /** Frames that the NIC's network policies dropped, by direction. Unset or empty if they dropped none. */
  readonly policyDrops?: readonly RefusedFrames[];
  /** Number of DHCP requests since wiring. Unset if the pod assigns no addresses to this NIC. */
  readonly dhcpRequests?: number;
  readonly target?: ProbeTarget;
  readonly source?: string;
  readonly losses?: readonly LossCount[];
  readonly neighbors?: readonly FixedNeighbor[];
  readonly entries?: readonly FixedEntry[];
  /** Set only if a probe was lost or the pod NIC's peer is in no bridge. */
  readonly filters?: readonly FrameFilter[];
  /** Whether the node has a route to `links.nodePeer`. Unset for a bridged peer or unknown routes. */
  readonly isPeerRouted?: boolean;
  readonly forwarded?: ForwardedPing;
  readonly routeFaults?: readonly RouteFault[];
  /** Set only if the node is the gateway but cannot send packets to other networks. */
  readonly nodeUplinkFault?: NodeUplinkFault;
  /** Trace of the probe `through` (see {@link ProbeName}). Set only if the binding is masquerade. */
  readonly through?: FrameTrace;
  readonly guestRoute?: GuestRoute;
  /** Set only if the pod lost frames of the probe `through`. */
  readonly packetFilters?: readonly PacketFilter[];
}

export interface GuestReport {
  readonly macs: readonly string[];
  /** Guest's name of the NIC. Unset if the agent reports no NIC with the device's MAC. */
  readonly name?: string;
  /** Addresses except link-local ones. Unset if the agent reports no NIC with the device's MAC. */
  readonly addresses?: readonly string[];
  readonly hasDefaultRoute?: boolean;
}

export interface PathFacts {
  readonly binding: "bridge" | "masquerade" | "managedTap" | "tap" | "vhostuser" | "hook";
  /** Why the interface is not ready, as its status reports. Unset in the phase `Ready`. */
  readonly blockedReason?: string;
  readonly device?: { readonly linkUp: boolean; readonly mac: string; readonly mtu?: number };
  readonly guest?: GuestReport;
  readonly isPaused?: true;
  /** Set for minutes after the guest's start, because its NICs may not be configured yet. */
  readonly isBooting?: true;
  /** Set for Windows, which rejects pings and connections by default, so missing replies are no fault. */
  readonly isWindows?: true;
  /** MACs of the VM's NICs, in lower case. Linux may answer ARP with any of them. */
  readonly vmMacs?: readonly string[];
  /** IPv4 addresses that the network assigned to the pod NIC. Set only if the binding is masquerade. */
  readonly podAddresses?: readonly string[];
  /** Sender addresses that the pod permits for the guest. Unset if it permits all addresses. */
  readonly allowedAddresses?: readonly string[];
  /** Whether the pod's DHCP server runs. Unset if the pod assigns no addresses to this NIC. */
  readonly serves?: boolean;
  readonly offersDefaultRoute: boolean;
  /** Names and values that replace the placeholders in the doctor's fixes. */
  readonly names?: FixValues;
  /** Inode of the pod's network namespace, as decimal text. */
  readonly netns?: string;
  readonly observed?: ObservedPath;
}
