// SPDX-License-Identifier: Apache-2.0
// Facts about a NIC's path: its links, faults of its wiring, and the links that saw the doctor's probe frames.
import type { HopName } from "./report.ts";

export interface PathLink {
  readonly name: string;
  readonly kind: string;
  readonly mac: string;
  /** Maximum transmission unit, in bytes. */
  readonly mtu: number;
  readonly up: boolean;
  readonly carrier: boolean;
  readonly master?: string;
  /** Addresses in the form ADDRESS/LENGTH. */
  readonly addresses: readonly string[];
  readonly isBlocked: boolean;
  readonly canFilterVlans: boolean;
  /** VLAN of untagged frames on a bridge or a bridge port. Unset if untagged frames are dropped. */
  readonly untaggedVlan?: number;
  readonly vlans: readonly number[];
}

/** Links of a path, by hop. A link is unset if it does not exist or is not visible. */
export interface PathLinks {
  readonly tap?: PathLink;
  readonly podBridge?: PathLink;
  readonly podNic?: PathLink;
  readonly nodePeer?: PathLink;
  readonly nodeBridge?: PathLink;
  /** Ports of the node's bridge that belong to no pod, or the parent of the pod NIC. */
  readonly uplinks: readonly PathLink[];
  /** The pod NIC's counterpart on the node: the peer of a veth, a parent NIC, or none that is visible. */
  readonly onNode: "peer" | "parent" | "unseen";
}

/** A part of the wiring that is missing or no longer as Patchbay created it. */
export interface WiringFault {
  readonly link: string;
  readonly what: "link" | "up" | "master" | "mac" | "learning" | "entry" | "rules" | "other";
  readonly description: string;
}

/**
 * A kind of probe frame.
 *
 * - `inward*`: a request of ARP or IPv6 neighbor discovery to the guest, from the node's side
 * - `outward*` and `echo*`: such a request and a ping to the network, with the guest as sender
 * - `*Large`: a frame as large as the NIC's MTU allows
 * - `echoPartial`: a ping without a finished checksum, like TCP frames of a guest
 * - `own`: such a request for the guest's own address
 * - `ping` and `connect`: an ICMP and a TCP request to the guest, with its gateway as sender
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
  | "connect";

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

/** A permanent forwarding entry that sends a MAC of this path to a port outside the path. */
export interface FixedEntry {
  readonly at: Place;
  readonly port: string;
  readonly mac: string;
}

export interface FrameFilter {
  readonly at: Place;
  /** Name of the filtered link. Unset if the filter applies to all bridges of the network namespace. */
  readonly link?: string;
  readonly command: string;
}

export interface ForwardedPing {
  readonly link: string;
  readonly gateway: string;
  readonly sentAs: "no" | "asGuest" | "asNode";
  readonly hasReply: boolean;
  readonly repliesToNode: boolean;
}

export interface RefusedFrames {
  readonly description: string;
  /** Whether the frames have a forbidden IPv4 sender. Forbidden IPv6 senders are harmless: guests also announce self-assigned addresses. */
  readonly isOfIpv4Address: boolean;
  readonly frames: number;
  readonly recentFrames: number;
}

/** The target of the outward probes. It is the node's bridge itself, behind another of its ports, or beyond the uplink. */
export interface ProbeTarget {
  readonly address: string;
  readonly at: "bridge" | "port" | "beyond";
  /** Set if the target is another guest, whose silence proves no fault: it may be stopped or have another address. */
  readonly isGuest?: true;
  /** Set if the target is the gateway of the guest's or the pod's default route. */
  readonly isDefault?: true;
  /** Set if the node translates addresses for the guest and has lost the gateway address. */
  readonly isMissing?: true;
}

export interface ObservedPath {
  /** Whether the network sees the guest's own MAC. Otherwise the pod sends the probes for the guest. */
  readonly isBridged: boolean;
  readonly links: PathLinks;
  readonly wiringFaults: readonly WiringFault[];
  readonly traces: readonly FrameTrace[];
  /** Frames that the send guard refused, by reason, the most frequent first. Empty if the guest may send anything. */
  readonly refused: readonly RefusedFrames[];
  /** Number of the guest's DHCP requests since the NIC was wired. Unset if the pod assigns this NIC no addresses. */
  readonly dhcpRequests?: number;
  readonly target?: ProbeTarget;
  /** IPv4 address of the guest or the pod that the network sees, without a prefix length. */
  readonly source?: string;
  readonly losses?: readonly LossCount[];
  readonly neighbors?: readonly FixedNeighbor[];
  readonly entries?: readonly FixedEntry[];
  /** Filters along the path. Unset unless frames were lost or the pod NIC's peer is in no bridge. */
  readonly filters?: readonly FrameFilter[];
  /** Whether a route of the node uses `links.nodePeer`. Unset if that link is in a bridge, or if the routes are unknown. */
  readonly isPeerRouted?: boolean;
  readonly forwarded?: ForwardedPing;
}

export interface GuestReport {
  readonly macs: readonly string[];
  /** Addresses of the NIC with the device's MAC, without link-local ones. Unset if the agent reports no such NIC. */
  readonly addresses?: readonly string[];
  /** Whether the guest has an IPv4 default route. Unset if the agent does not report routes. */
  readonly hasDefaultRoute?: boolean;
}

export interface PathFacts {
  readonly binding: "bridge" | "masquerade" | "managedTap" | "tap" | "vhostuser" | "hook";
  /** Why the interface is not ready, according to its status. Unset if its phase is `Ready`. */
  readonly blockedReason?: string;
  readonly device?: { readonly linkUp: boolean; readonly mac: string; readonly mtu?: number };
  readonly guest?: GuestReport;
  readonly isPaused?: true;
  /** Set if the guest agent reports Windows, whose firewall refuses pings and connections by default. */
  readonly isWindows?: true;
  /** MACs of all NICs of this VM, in lower case. Linux may answer ARP for one NIC's address on another NIC. */
  readonly vmMacs?: readonly string[];
  /** Addresses that the guest may use as sender. Unset if it may use any. */
  readonly allowedAddresses?: readonly string[];
  /** Whether the pod's DHCP server for this NIC runs. Unset if the pod assigns this NIC no addresses. */
  readonly serves?: boolean;
  /** Whether the pod's DHCP server offers the guest an IPv4 default route. */
  readonly offersDefaultRoute: boolean;
  readonly observed?: ObservedPath;
}
