// SPDX-License-Identifier: Apache-2.0
// One change of a namespace's links, as data from the plan to the message for the kernel. In words it is for people only.

/** Settings of a link that are changed together; what is absent stays. */
export interface LinkSettings {
  readonly mac?: string;
  readonly mtu?: number;
  /** Name of the bridge that it becomes a port of. */
  readonly master?: string;
  /** Whether it answers ARP. */
  readonly arp?: boolean;
  /** `none`: the kernel makes it no link-local address. */
  readonly addressGeneration?: "none";
  readonly up?: boolean;
  /** Whether it learns MACs, as a port of a bridge. */
  readonly learning?: boolean;
  /** Whether frames to all, to many and to who is not known leave by it, as a port of a bridge. */
  readonly flooding?: boolean;
  /** Whether frames for the next bridge (LLDP, 802.1X, LACP) pass, as a port of a bridge. */
  readonly passesSwitchFrames?: boolean;
}

/**
 * The port's mask of groups 01:80:C2:00:00:0x whose frames it passes on: all but pause frames, which the kernel does not
 * allow. The bridge's own mask cannot have LACP. Source: linux net/bridge/br_private.h, BR_GROUPFWD_RESTRICTED
 */
export const SWITCH_FRAMES_MASK = 0xfffd;

/** `nodad`: used at once, without a search for another owner. `noprefixroute`: it brings no route. Source: ip-address(8) */
export type AddressFlag = "nodad" | "noprefixroute";

type OnLink<Op> = Op extends string ? { readonly op: Op; readonly link: string } : never;
type OnPort<Op> = Op extends string
  ? { readonly op: Op; readonly link: string; readonly mac: string }
  : never;

/** One change. A bridge that is plain forwards at once: no spanning tree, no delay, no snooping. */
export type LinkChange =
  | OnLink<"addBridge" | "makePlain" | "deleteLink" | "flushAddresses">
  /** `owner`: uid and gid of who may open it. `takesMany`: it is opened once for each queue. */
  | {
      readonly op: "addTap";
      readonly link: string;
      readonly owner: number;
      readonly takesMany: boolean;
    }
  | { readonly op: "setLink"; readonly link: string; readonly settings: LinkSettings }
  /** `address` with its prefix's length. */
  | {
      readonly op: "addAddress";
      readonly link: string;
      readonly address: string;
      readonly flags: readonly AddressFlag[];
    }
  | { readonly op: "deleteAddress"; readonly link: string; readonly address: string }
  /** Frames for `mac` leave by that port of a bridge, and by no other; or by whichever has it. */
  | OnPort<"replaceForwarding" | "deleteForwarding">;

const PLAIN = "type bridge stp_state 0 forward_delay 0 mcast_snooping 0";

function onOff(value: boolean): string {
  return value ? "on" : "off";
}

function printFlooding(flooding: boolean): string {
  const words = ["flood", "mcast_flood", "bcast_flood"].map((name) => `${name} ${onOff(flooding)}`);
  return `type bridge_slave ${words.join(" ")}`;
}

function printGroups(passes: boolean): string {
  return `type bridge_slave group_fwd_mask ${passes ? `0x${SWITCH_FRAMES_MASK.toString(16)}` : "0"}`;
}

function printPortSettings(settings: LinkSettings): readonly string[] {
  const { learning, flooding, passesSwitchFrames } = settings;
  return [
    learning === undefined ? [] : `type bridge_slave learning ${onOff(learning)}`,
    flooding === undefined ? [] : printFlooding(flooding),
    passesSwitchFrames === undefined ? [] : printGroups(passesSwitchFrames),
  ].flat();
}

function printSettings(settings: LinkSettings): string {
  const { mac, mtu, master, arp, addressGeneration, up } = settings;
  return [
    mac === undefined ? [] : `address ${mac}`,
    mtu === undefined ? [] : `mtu ${String(mtu)}`,
    master === undefined ? [] : `master ${master}`,
    addressGeneration === undefined ? [] : `addrgenmode ${addressGeneration}`,
    arp === undefined ? [] : `arp ${onOff(arp)}`,
    up === undefined ? [] : up ? "up" : "down",
    printPortSettings(settings),
  ]
    .flat()
    .join(" ");
}

type Printers = {
  readonly [Op in LinkChange["op"]]: (change: Extract<LinkChange, { readonly op: Op }>) => string;
};

/** Source: ip-link(8), ip-address(8), ip-tuntap(8), bridge(8) */
const PRINTERS: Printers = {
  addBridge: ({ link }) => `ip link add ${link} ${PLAIN}`,
  makePlain: ({ link }) => `ip link set ${link} ${PLAIN}`,
  deleteLink: ({ link }) => `ip link del ${link}`,
  setLink: ({ link, settings }) => `ip link set ${link} ${printSettings(settings)}`,
  addTap: ({ link, owner, takesMany }) => {
    const id = String(owner);
    return `ip tuntap add dev ${link} mode tap${takesMany ? " multi_queue" : ""} user ${id} group ${id}`;
  },
  addAddress: ({ link, address, flags }) =>
    ["ip addr add", address, "dev", link, ...flags].join(" "),
  deleteAddress: ({ link, address }) => `ip addr del ${address} dev ${link}`,
  flushAddresses: ({ link }) => `ip addr flush dev ${link}`,
  replaceForwarding: ({ link, mac }) => `bridge fdb replace ${mac} dev ${link} master static`,
  deleteForwarding: ({ link, mac }) => `bridge fdb del ${mac} dev ${link} master`,
};

/** The change as a person would type it. */
export function printLinkChange(change: LinkChange): string {
  // Change and printer are of the same op.
  const print = PRINTERS[change.op] as (change: LinkChange) => string;
  return print(change);
}
