// SPDX-License-Identifier: Apache-2.0
// Facts about a NIC's path: its links, what is missing around them, and which links saw the doctor's probe frames.
import type { HopName } from "./report.ts";

export interface PathLink {
  readonly name: string;
  readonly kind: string;
  readonly mac: string;
  /** Bytes. */
  readonly mtu: number;
  readonly up: boolean;
  readonly carrier: boolean;
  readonly master?: string;
  /** ADDRESS/LENGTH */
  readonly addresses: readonly string[];
  readonly isBlocked: boolean;
  readonly filtersVlans: boolean;
  /** For a bridge or a port: VLAN of untagged frames. Unset if untagged frames are dropped. */
  readonly untaggedVlan?: number;
  readonly vlans: readonly number[];
}

/** Links by hop. A link is unset if it does not exist or is not visible. */
export interface PathLinks {
  readonly tap?: PathLink;
  readonly podBridge?: PathLink;
  readonly podNic?: PathLink;
  readonly nodePeer?: PathLink;
  readonly nodeBridge?: PathLink;
  /** Ports of the node's bridge that belong to no pod, or the parent of the pod NIC. */
  readonly uplinks: readonly PathLink[];
  /** How the pod NIC is attached to the node: as a veth with a peer, on a parent NIC, or not visibly. */
  readonly onNode: "peer" | "parent" | "unseen";
}

/** A part of the wiring that is missing or differs from what was created. */
export interface WiringFault {
  readonly link: string;
  readonly what: "link" | "up" | "master" | "mac" | "learning" | "entry" | "rules" | "other";
  readonly description: string;
}

/**
 * A kind of probe frame.
 *
 * - `inward*`: to the guest from the node's side; `outward*`, `echo*`: to the network with the guest as sender
 * - `*Large`: as large as the NIC's MTU allows
 * - `echoPartial`: leaves its checksum to the links, as TCP of a guest does
 * - `own`: ARP for the guest's own address
 * - `ping` and `connect`: to the guest with its gateway as sender, by ICMP and by TCP
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
  /** Name of the filtered link. Unset if the filter applies to all bridges of the namespace. */
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
  /** The guest uses an IPv4 address that it may not use. For IPv6 this is harmless: guests also announce a self-assigned address. */
  readonly isOfIpv4Address: boolean;
  readonly frames: number;
  readonly recentFrames: number;
}

/** The target of the probes: on the node's bridge itself, on another of its ports, or beyond the uplink. */
export interface ProbeTarget {
  readonly address: string;
  readonly at: "bridge" | "port" | "beyond";
  /** The target is another guest. Its silence proves no fault: it may be stopped or have another address. */
  readonly isGuest?: true;
  /** The target is the gateway of the guest's or the pod's default route. */
  readonly isDefault?: true;
  /** The node translates for the guest and has lost this gateway address. */
  readonly isMissing?: true;
}

export interface ObservedPath {
  /** Whether the guest takes the pod NIC's place on the network. Otherwise the pod sends the probes for it. */
  readonly isBridged: boolean;
  readonly links: PathLinks;
  readonly wiringFaults: readonly WiringFault[];
  readonly traces: readonly FrameTrace[];
  /** By reason, the most frequent first. Empty if the guest may send anything. */
  readonly refused: readonly RefusedFrames[];
  /** DHCP requests of the guest since the NIC was wired. Unset if the pod assigns this NIC no addresses. */
  readonly dhcpRequests?: number;
  readonly target?: ProbeTarget;
  /** IPv4 address that the network sees, of the guest or of the pod, without a prefix length. */
  readonly source?: string;
  readonly losses?: readonly LossCount[];
  readonly neighbors?: readonly FixedNeighbor[];
  readonly entries?: readonly FixedEntry[];
  /** Read only if frames were lost or the pod NIC's peer is in no bridge. */
  readonly filters?: readonly FrameFilter[];
  /** Whether a route of the node uses `links.nodePeer`. Read only if that link is in no bridge. */
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
  /** The reason or message of the interface's status, if its phase is not `Ready`. */
  readonly blockedReason?: string;
  readonly device?: { readonly linkUp: boolean; readonly mac: string; readonly mtu?: number };
  readonly guest?: GuestReport;
  readonly isPaused?: true;
  /** The guest's agent reports Windows, whose firewall refuses pings and connections by default. */
  readonly isWindows?: true;
  /** MACs of all NICs of this VM, lower case. Linux may answer ARP for one NIC's address on another NIC. */
  readonly vmMacs?: readonly string[];
  /** Addresses that the guest may claim. Unset if it may claim any. */
  readonly mayClaim?: readonly string[];
  /** Whether the pod's DHCP server for this NIC runs. Unset if the pod assigns this NIC no addresses. */
  readonly serves?: boolean;
  readonly leadsOut: boolean;
  readonly observed?: ObservedPath;
}
