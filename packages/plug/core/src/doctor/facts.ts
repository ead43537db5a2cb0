// SPDX-License-Identifier: Apache-2.0
// What is seen of a NIC's way: its links, what is missing around them, and where frames of the doctor's own came by.
import type { HopName } from "./report.ts";

/** A link on the way. */
export interface WayLink {
  readonly name: string;
  /** As `Link.kind`. */
  readonly kind: string;
  readonly mac: string;
  /** Bytes. */
  readonly mtu: number;
  readonly up: boolean;
  readonly carrier: boolean;
  /** Name of the bridge that it is a port of. */
  readonly master?: string;
  /** ADDRESS/LENGTH */
  readonly addresses: readonly string[];
  /** As a port of a bridge: spanning tree lets it forward nothing. */
  readonly isBlocked: boolean;
  /** As a bridge: its ports are held to their VLANs. */
  readonly filtersVlans: boolean;
  /** As a port of a bridge, or a bridge itself: VLAN of untagged frames; absent: they are dropped. */
  readonly untaggedVlan?: number;
  /** All VLANs that it takes. */
  readonly vlans: readonly number[];
}

/** Links by their hop; absent: it is not there, or cannot be seen. */
export interface WayLinks {
  readonly tap?: WayLink;
  readonly podBridge?: WayLink;
  readonly podNic?: WayLink;
  readonly nodePeer?: WayLink;
  readonly nodeBridge?: WayLink;
  /** Ports of the node's bridge that lead to no pod, or the parent of the pod NIC. */
  readonly uplinks: readonly WayLink[];
  /**
   * How the pod NIC hangs on the node: by its other end, on a parent, or by neither that can be seen there.
   */
  readonly onNode: "peer" | "parent" | "unseen";
}

/** Something that wiring makes, and that is not there as it should be. */
export interface WiringLack {
  /** Name of the link; empty: of none in particular. */
  readonly link: string;
  readonly what: "link" | "up" | "master" | "mac" | "learning" | "entry" | "rules" | "other";
  /** As a person would type what is missing. */
  readonly words: string;
}

/**
 * A frame of the doctor's own: to the guest from the node's side, or to the network as if from the guest; the large ones are
 * as large as the NIC lets through; the partial one leaves its checksum to the links, as guests' TCP does; `own` asks the
 * network for the guest's own address. `ping` and `connect` go to the guest as if from its gateway, by ICMP and by TCP.
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

/** Where such frames, and their answers, came by. */
export interface FrameTrace {
  readonly probe: ProbeName;
  /** Why the kernel did not send it; absent: it did. */
  readonly refused?: string;
  readonly asked: readonly HopName[];
  readonly answered: readonly HopName[];
  /** MACs that answered, each once. */
  readonly by: readonly string[];
  /** MACs that the answers were addressed to, each once. */
  readonly to: readonly string[];
}

/** How many of a series of frames were seen at each link, and how many of their answers. */
export interface LossCount {
  readonly probe: "ping" | "echo";
  readonly sent: number;
  readonly asked: Partial<Record<HopName, number>>;
  readonly answered: Partial<Record<HopName, number>>;
}

/** Namespace that something is in. */
export type Place = "pod" | "node";

/** A neighbor entry that does not age, for an address of this path. */
export interface FixedNeighbor {
  readonly at: Place;
  readonly link: string;
  readonly address: string;
  readonly mac: string;
}

/** A forwarding entry that does not age, and that leads a MAC of this path to a port that is not on it. */
export interface FixedEntry {
  readonly at: Place;
  readonly port: string;
  readonly mac: string;
}

/** Something that can drop frames, and that Patchbay did not make. */
export interface FrameFilter {
  readonly at: Place;
  /** Name of the link that it is on; unset: it is on the bridges of the namespace. */
  readonly link?: string;
  /** Command that shows it. */
  readonly command: string;
}

/** A ping through the node, to the node's own gateway. */
export interface ForwardedPing {
  /** Link of the node's default route, and the gateway there. */
  readonly link: string;
  readonly gateway: string;
  /** Whether it left by that link, and whose source address it had there. */
  readonly left: "no" | "asGuest" | "asNode";
  readonly isAnswered: boolean;
  /** Whether that gateway answers the node's own pings. */
  readonly answersNode: boolean;
}

/** Frames of the guest's that its send guard has refused for one reason. */
export interface RefusedFrames {
  /** In words, for a person. */
  readonly what: string;
  /**
   * The guest has another address of IPv4 than it may have. Of IPv6 it also says one that it makes up, and lacks nothing
   * without.
   */
  readonly isOfIpv4Address: boolean;
  /** Since the guard was made as it is. */
  readonly frames: number;
  /** Of these, while the way was looked at. */
  readonly lately: number;
}

/** Who is asked beyond the pod: on the node's bridge itself, on another of its ports, or beyond the uplink. */
export interface WayTarget {
  readonly address: string;
  readonly at: "bridge" | "port" | "beyond";
  /** Another guest, which may be stopped or have another address: its silence proves no fault. */
  readonly isGuest?: true;
  /** It is the gateway of the guest's or the pod's default route. */
  readonly isDefault?: true;
  /** The node translates for the guest, so it must have this address, and has it no more. */
  readonly isMissing?: true;
}

/** What was seen on the node. */
export interface SeenWay {
  /** The guest has the pod NIC's place on the network; else it is behind the pod, and asked from there. */
  readonly isBridged: boolean;
  readonly links: WayLinks;
  readonly lacks: readonly WiringLack[];
  readonly traces: readonly FrameTrace[];
  /** By reason, the most frequent first; none where the guest may send anything. */
  readonly refused: readonly RefusedFrames[];
  /** DHCP requests of the guest since the NIC was wired. Unset if the pod assigns this NIC no addresses. */
  readonly dhcpRequests?: number;
  /** Absent: nobody is known. */
  readonly target?: WayTarget;
  /** Address of IPv4 that the network sees, without length: the guest's or the pod's; unset: it has none. */
  readonly source?: string;
  /** Unset: no series was sent. */
  readonly losses?: readonly LossCount[];
  readonly neighbors?: readonly FixedNeighbor[];
  readonly entries?: readonly FixedEntry[];
  /** Read only when frames were lost, or the other end of the pod NIC is a port of no bridge. */
  readonly filters?: readonly FrameFilter[];
  /** Whether a route of the node leads to `links.nodePeer`. Read only when that is a port of no bridge. */
  readonly isPeerRouted?: boolean;
  /** Unset: the node is not the guest's gateway, or has none itself. */
  readonly forwarded?: ForwardedPing;
}

/** The guest's word on the NIC, by its agent. */
export interface GuestWord {
  /** MACs of all of its NICs, lower case. */
  readonly macs: readonly string[];
  /** Of the NIC with the device's MAC, without those that are link-local; absent: it tells of no such NIC. */
  readonly addresses?: readonly string[];
  /** Whether it has a default route of IPv4; absent: it does not tell. */
  readonly hasDefaultRoute?: boolean;
}

/** Everything from which a way is judged. */
export interface WayFacts {
  readonly binding: "bridge" | "masquerade" | "managedTap" | "tap" | "vhostuser" | "hook";
  /** Why the iface is not as it is wanted, in the words of its status; absent: it is. */
  readonly hindrance?: string;
  /** Absent: the guest has no such NIC. */
  readonly device?: { readonly linkUp: boolean; readonly mac: string; readonly mtu?: number };
  /** Absent: no agent answers. */
  readonly guest?: GuestWord;
  /** libvirt reports the guest as paused, so it cannot answer. */
  readonly isPaused?: true;
  /** The guest's agent reports Windows, whose firewall refuses pings and connections by default. */
  readonly isWindows?: true;
  /** MACs of all NICs of this VM, lower case: Linux answers for an address of one NIC on another of the same network. */
  readonly ownMacs?: readonly string[];
  /** What the guest may say it has; absent: anything. */
  readonly mayClaim?: readonly string[];
  /** Whether the pod's DHCP server runs for this NIC; absent: it gives this NIC no addresses. */
  readonly serves?: boolean;
  /** The guest is told of a way out of its network. */
  readonly leadsOut: boolean;
  /** Absent: no link of the kernel carries it, or none is there yet. */
  readonly seen?: SeenWay;
}
