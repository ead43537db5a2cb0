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
  /** Set if a bridge neither sends broadcasts to this port nor answers ARP requests for the hosts behind this port. */
  readonly dropsBroadcasts?: true;
  /** VLAN of untagged frames on a bridge or a bridge port. Unset if the link drops untagged frames. */
  readonly untaggedVlan?: number;
  readonly vlans: readonly number[];
}

/** Links of a path, by hop. A link is unset if it does not exist or Patchbay cannot observe it. */
export interface PathLinks {
  readonly tap?: PathLink;
  readonly podBridge?: PathLink;
  readonly podNic?: PathLink;
  readonly nodePeer?: PathLink;
  readonly nodeBridge?: PathLink;
  /** Bridges of the node, one of which probably lost the port `nodePeer`. Set only if `nodePeer` is known and not a port of a bridge. */
  readonly bridges?: readonly PathLink[];
  /** Ports of the node's bridge that lead out of the node. For a pod NIC that is not a veth, only its parent link. */
  readonly uplinks: readonly PathLink[];
  /** Kind of the node's link that connects the pod NIC: its veth peer or its parent link. `unseen` if Patchbay cannot observe the link. */
  readonly onNode: "peer" | "parent" | "unseen";
}

export interface WiringFault {
  readonly link: string;
  readonly what: "link" | "up" | "master" | "mac" | "learning" | "entry" | "rules" | "other";
  readonly description: string;
}

/**
 * Kind of probe frame.
 * - `inward*`: an ARP or IPv6 neighbor request to the guest, sent from the node's side
 * - `outward*` and `echo*`: a neighbor request and a ping to the network, with the guest as sender
 * - `*Large`: a frame as large as the NIC's MTU allows
 * - `echoPartial`: a ping whose checksum a link must complete, as in TCP frames of a guest
 * - `own`: a neighbor request for the guest's own address
 * - `dhcp`: a request for a DHCP offer
 * - `ping` and `connect`: an ICMP and a TCP request to the guest, with its gateway as sender
 * - `through`: a TCP request to the pod with the gateway as sender, which the pod must translate for the guest
 * - `beyond`: a ping to the guest with a host of another network, behind the gateway, as sender
 */
export type ProbeName =
  | "inward"
  | "inwardLarge"
  | "outward"
  | "outwardLarge"
  | "echo"
  | "echoLarge"
  | "echoPartial"
  | "own"
  | "dhcp"
  | "ping"
  | "connect"
  | "through"
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

/** Static forwarding entry that sends frames for the guest's or the gateway's MAC to a port outside the NIC's path. */
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
  /** Link of the default route. It is the first uplink if all uplinks are down and the route is therefore missing. Unset for `noRoute`. */
  readonly link?: string;
}

export interface RefusedFrames {
  readonly description: string;
  /** Whether the frames were refused for their IPv4 source address. Only such a refusal can prove a fault. */
  readonly isOfIpv4Address: boolean;
  readonly frames: number;
  readonly recentFrames: number;
}

/** Host to which the outward probes are sent: the node itself, a host behind another bridge port, or a host beyond the uplink. */
export interface ProbeTarget {
  readonly address: string;
  readonly at: "bridge" | "port" | "beyond";
  /** Set if the target is another guest. A missing reply then proves no fault, because that guest may be stopped. */
  readonly isGuest?: true;
  /** Set if no route uses the gateway that CNI returned. IPAM may have invented this gateway, so a missing reply proves no fault. */
  readonly isUnrouted?: true;
  readonly isDefault?: true;
  /** Set if NAT rules show that the node is meant to be the guest's gateway, but the node does not have the gateway's address. */
  readonly isMissing?: true;
}

export interface ObservedPath {
  /** Whether the guest's frames reach the network with the guest's MAC. If not, the outward probes have the pod NIC's MAC as sender. */
  readonly isBridged: boolean;
  readonly links: PathLinks;
  readonly wiringFaults: readonly WiringFault[];
  readonly traces: readonly FrameTrace[];
  /** Refused frames of the guest by reason, the most frequent reason first. Empty if the guest may send any frame. */
  readonly refused: readonly RefusedFrames[];
  /** Frames that the NIC's network policies dropped, by direction. Unset or empty if they dropped none. */
  readonly policyDrops?: readonly RefusedFrames[];
  /** Number of DHCP requests that the guest sent after the NIC was wired. Unset if the pod assigns no addresses to this NIC. */
  readonly dhcpRequests?: number;
  readonly target?: ProbeTarget;
  readonly source?: string;
  readonly losses?: readonly LossCount[];
  readonly neighbors?: readonly FixedNeighbor[];
  readonly entries?: readonly FixedEntry[];
  /** Filters along the path. Set only if a probe was lost or the pod NIC's peer is in no bridge. */
  readonly filters?: readonly FrameFilter[];
  /** Whether the node has a route to `links.nodePeer`. Unset if the peer is in a bridge or the routes are unknown. */
  readonly isPeerRouted?: boolean;
  readonly forwarded?: ForwardedPing;
  readonly routeFaults?: readonly RouteFault[];
  /** Set only if the node is the guest's gateway and cannot send the guest's packets to other networks. */
  readonly nodeUplinkFault?: NodeUplinkFault;
  /** Trace of the probe `through` (see {@link ProbeName}). Set only if the binding is masquerade. */
  readonly through?: FrameTrace;
  readonly guestRoute?: GuestRoute;
  /** Set only if the pod lost frames of the probe `through`. */
  readonly packetFilters?: readonly PacketFilter[];
}

export interface GuestReport {
  readonly macs: readonly string[];
  /** Name that the guest gives the NIC with the device's MAC. Unset if the guest agent reports no such NIC. */
  readonly name?: string;
  /** Addresses of the NIC with the device's MAC, without link-local addresses. Unset if the agent reports no NIC with this MAC. */
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
  /** Set for some minutes after the guest's start, while the guest may not have configured its NICs yet. */
  readonly isBooting?: true;
  /** Set if the guest agent reports Windows. Windows rejects pings and connections by default, so missing replies are no fault. */
  readonly isWindows?: true;
  /** MACs of all NICs of this VM, in lower case. Linux may answer ARP with the MAC of another NIC, which is no fault. */
  readonly vmMacs?: readonly string[];
  /** IPv4 addresses that the network assigned to the pod NIC. Set only if the binding is masquerade. */
  readonly podAddresses?: readonly string[];
  /** Sender addresses that the pod permits for the guest. Unset if it permits all addresses. */
  readonly allowedAddresses?: readonly string[];
  /** Whether the pod's DHCP server for this NIC runs. Unset if the pod assigns no addresses to this NIC. */
  readonly serves?: boolean;
  readonly offersDefaultRoute: boolean;
  /** Names and other values of the VM and the interface. They replace the placeholders in the fixes that the doctor proposes. */
  readonly names?: FixValues;
  /** Inode of the pod's network namespace, as decimal text. */
  readonly netns?: string;
  readonly observed?: ObservedPath;
}
