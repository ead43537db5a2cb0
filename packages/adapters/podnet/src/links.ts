// SPDX-License-Identifier: Apache-2.0
// Changes of links in a network namespace, as data. Error messages and diagnoses print changes as iproute2 commands.
import { isJsonObject, type JsonObject } from "@patchbay/api/json";
import { AppError } from "@patchbay/base";
import type { Link } from "@patchbay/core/interfaces";
import type { RateLimit, TokenBucket } from "@patchbay/core/nics";

/** New settings of a link, which are all set in a single change. Unset settings stay unchanged. */
export interface LinkSettings {
  readonly mac?: string;
  readonly mtu?: number;
  readonly master?: string;
  readonly arp?: boolean;
  /** `none` stops the kernel from adding an IPv6 link-local address. */
  readonly addressGeneration?: "none";
  readonly up?: boolean;
  readonly learning?: boolean;
  /** Whether a bridge port floods broadcast, multicast and unknown-unicast frames. */
  readonly flooding?: boolean;
  /** Whether a bridge port forwards LLDP, 802.1X and LACP, which bridges normally drop. */
  readonly passesSwitchFrames?: boolean;
}

/**
 * Mask of the groups 01:80:C2:00:00:0x that a port forwards: all except pause frames, which the kernel forbids. Source:
 * linux net/bridge/br_private.h, BR_GROUPFWD_MACPAUSE
 */
export const SWITCH_FRAMES_MASK = 0xfffd;

/** Flags: `nodad` disables duplicate address detection. `noprefixroute` adds no route to the subnet. Source: ip-address(8) */
export type AddressFlag = "nodad" | "noprefixroute";

type LinkOperation<Op> = Op extends string ? { readonly op: Op; readonly link: string } : never;
type PortOperation<Op> = Op extends string
  ? { readonly op: Op; readonly link: string; readonly mac: string }
  : never;

/** Change of one link. `makePlain` disables spanning tree, forward delay and multicast snooping of a bridge. */
export type LinkChange =
  | LinkOperation<"addBridge" | "makePlain" | "deleteLink" | "flushAddresses">
  /** `addLimiter` adds an ifb link. `clearRate` removes the limit that `setRate` set for frames that leave through the link. */
  | LinkOperation<"addLimiter" | "clearRate">
  | { readonly op: "setRate"; readonly link: string; readonly limit: RateLimit }
  /** `owner` is the user and group ID that may open the tap. QEMU opens a multi-queue tap once per queue. */
  | {
      readonly op: "addTap";
      readonly link: string;
      readonly owner: number;
      readonly isMultiQueue: boolean;
    }
  | { readonly op: "setLink"; readonly link: string; readonly settings: LinkSettings }
  | {
      readonly op: "addAddress";
      readonly link: string;
      readonly address: string;
      readonly flags: readonly AddressFlag[];
    }
  | { readonly op: "deleteAddress"; readonly link: string; readonly address: string }
  /** A static entry makes the bridge send frames for `mac` only to this port. */
  | PortOperation<"replaceFdbEntry" | "deleteFdbEntry">;

const PLAIN_BRIDGE_OPTIONS = "type bridge stp_state 0 forward_delay 0 mcast_snooping 0";

function printOnOff(value: boolean): string {
  return value ? "on" : "off";
}

function printFlooding(flooding: boolean): string {
  const flags = ["flood", "mcast_flood", "bcast_flood"].map(
    (name) => `${name} ${printOnOff(flooding)}`,
  );
  return `type bridge_slave ${flags.join(" ")}`;
}

function printGroups(isForwarding: boolean): string {
  return `type bridge_slave group_fwd_mask ${isForwarding ? `0x${SWITCH_FRAMES_MASK.toString(16)}` : "0"}`;
}

function printPortSettings(settings: LinkSettings): readonly string[] {
  const { learning, flooding, passesSwitchFrames } = settings;
  return [
    learning === undefined ? [] : `type bridge_slave learning ${printOnOff(learning)}`,
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
    arp === undefined ? [] : `arp ${printOnOff(arp)}`,
    up === undefined ? [] : up ? "up" : "down",
    printPortSettings(settings),
  ]
    .flat()
    .join(" ");
}

/** Handle by which Patchbay recognizes its own token bucket filters: `pb` in ASCII. */
export const RATE_HANDLE = 0x7062_0000;
const PRINTED_HANDLE = `root handle ${(RATE_HANDLE >>> 16).toString(16)}:`;

function printRate({ bytesPerSecond }: TokenBucket): string {
  return `${String(bytesPerSecond * 8)}bit`;
}

function printRateLimit({ average, peak, queueBytes }: RateLimit): string {
  return [
    `rate ${printRate(average)} burst ${String(average.burstBytes)}`,
    peak === undefined ? [] : `peakrate ${printRate(peak)} mtu ${String(peak.burstBytes)}`,
    `limit ${String(queueBytes)}`,
  ]
    .flat()
    .join(" ");
}

type Printers = {
  readonly [Op in LinkChange["op"]]: (change: Extract<LinkChange, { readonly op: Op }>) => string;
};

/** Functions that print a change as a command. Source: ip-link(8), ip-address(8), ip-tuntap(8), bridge(8), tc-tbf(8) */
const PRINTERS: Printers = {
  addBridge: ({ link }) => `ip link add ${link} ${PLAIN_BRIDGE_OPTIONS}`,
  addLimiter: ({ link }) => `ip link add ${link} type ifb`,
  setRate: ({ link, limit }) =>
    `tc qdisc replace dev ${link} ${PRINTED_HANDLE} tbf ${printRateLimit(limit)}`,
  clearRate: ({ link }) => `tc qdisc del dev ${link} ${PRINTED_HANDLE}`,
  makePlain: ({ link }) => `ip link set ${link} ${PLAIN_BRIDGE_OPTIONS}`,
  deleteLink: ({ link }) => `ip link del ${link}`,
  setLink: ({ link, settings }) => `ip link set ${link} ${printSettings(settings)}`,
  addTap: ({ link, owner, isMultiQueue }) => {
    const id = String(owner);
    return `ip tuntap add dev ${link} mode tap${isMultiQueue ? " multi_queue" : ""} user ${id} group ${id}`;
  },
  addAddress: ({ link, address, flags }) =>
    ["ip addr add", address, "dev", link, ...flags].join(" "),
  deleteAddress: ({ link, address }) => `ip addr del ${address} dev ${link}`,
  flushAddresses: ({ link }) => `ip addr flush dev ${link}`,
  replaceFdbEntry: ({ link, mac }) => `bridge fdb replace ${mac} dev ${link} master static`,
  deleteFdbEntry: ({ link, mac }) => `bridge fdb del ${mac} dev ${link} master`,
};

export function printLinkChange(change: LinkChange): string {
  const print = PRINTERS[change.op] as (change: LinkChange) => string;
  return print(change);
}

export function toTextOrEmpty(value: unknown): string {
  return typeof value === "string" ? value : "";
}

export interface WiredLink extends Link {
  readonly noArp: boolean;
  /** Whether the link is a bridge whose spanning tree, forward delay and multicast snooping are disabled. */
  readonly isPlainBridge: boolean;
  readonly learning: boolean;
  readonly flooding: boolean;
  readonly passesSwitchFrames: boolean;
}

export function parseList(text: string): readonly JsonObject[] {
  try {
    const value: unknown = text.trim() === "" ? [] : JSON.parse(text);
    if (Array.isArray(value)) return value.filter(isJsonObject);
  } catch {
    // The error below is thrown.
  }
  throw new AppError("PODNET_FAILED", { message: "the output is not a JSON list" });
}

export interface ForwardingEntry {
  readonly mac: string;
  readonly device: string;
  /** `stale` or empty if the bridge learned the entry, otherwise `static` or `permanent`. */
  readonly state: string;
}
