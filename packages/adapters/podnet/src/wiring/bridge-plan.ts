// SPDX-License-Identifier: Apache-2.0
// Plans the link changes that create a bridge and a tap for a pod NIC. Omits changes that are already done. docs/design/pod-links.md
// explains the links.
import type { BridgeWiring, PodReplies } from "@patchbay/core/nics";
import type {
  LinkChange,
  LinkSettings,
  WiredLink,
  AddressFlag,
  ForwardingEntry,
} from "../links.ts";
import { hash } from "node:crypto";
import { toLinkLocal, parseIp, printAddress } from "@patchbay/api/values";
import { AppError } from "@patchbay/base";
import type { Link } from "@patchbay/core/interfaces";

type BridgeName = Pick<BridgeWiring, "bridgeName">;
/** Options of a bridge port. Unset `floods` leaves the port's flooding unchanged. */
type PortOptions = BridgeName & {
  readonly floods?: boolean;
  readonly passesSwitchFrames?: boolean;
};

interface Step {
  readonly isDone: boolean;
  readonly change: LinkChange;
}

export function listMissingChanges(steps: readonly Step[]): readonly LinkChange[] {
  return steps.flatMap(({ isDone, change }) => (isDone ? [] : [change]));
}

function buildLinkStep(isDone: boolean, link: string, settings: LinkSettings): Step {
  return { isDone, change: { op: "setLink", link, settings } };
}

function buildPortSteps(
  port: WiredLink | undefined,
  name: string,
  { floods, passesSwitchFrames = false, ...wiring }: PortOptions,
): readonly Step[] {
  const isPort = port?.master === wiring.bridgeName;
  const isFlooding = !isPort || port.flooding;
  const isFloodingCorrect = floods === undefined || floods === isFlooding;
  const isPassingSwitchFrames = isPort && port.passesSwitchFrames;
  return [
    buildLinkStep(isPort, name, { master: wiring.bridgeName }),
    buildLinkStep(isPort && !port.learning, name, { learning: false }),
    ...(isFloodingCorrect ? [] : [buildLinkStep(false, name, { flooding: floods })]),
    ...(passesSwitchFrames === isPassingSwitchFrames
      ? []
      : [buildLinkStep(false, name, { passesSwitchFrames })]),
    buildLinkStep(port?.up === true, name, { up: true }),
  ];
}

/** Removes addresses from a port, because the guest uses them. Also stops the kernel from adding a link-local address. */
function buildAddressRemovalSteps(port: WiredLink, wiring: BridgeName): readonly Step[] {
  const isDone = port.master === wiring.bridgeName && port.addresses.length === 0;
  return [
    buildLinkStep(isDone, port.name, { addressGeneration: "none" }),
    { isDone, change: { op: "flushAddresses", link: port.name } },
  ];
}

/** Settings that cannot change after the creation of a tap. */
type TapOptions = Pick<BridgeWiring, "owner" | "queues">;
type TapWiring = Pick<BridgeWiring, "bridgeName" | "tapName" | "mtu" | "incomingPodUid"> & {
  readonly passesSwitchFrames?: boolean;
};

export const ANY_TAP: TapOptions = { owner: 0, queues: 1 };

export function buildTapSteps(
  tap: WiredLink | undefined,
  { owner, queues }: TapOptions,
  wiring: TapWiring,
): readonly Step[] {
  const { tapName: name, mtu } = wiring;
  // A tap with several queues is created as a multi-queue tap, because QEMU opens it once per queue.
  const isMultiQueue = queues > 1;
  return [
    { isDone: tap !== undefined, change: { op: "addTap", link: name, owner, isMultiQueue } },
    ...(tap === undefined
      ? [buildLinkStep(false, name, { addressGeneration: "none" })]
      : buildAddressRemovalSteps(tap, wiring)),
    buildLinkStep(tap?.mtu === mtu, name, { mtu }),
    // Flooding stays off until a migrating guest arrives. Otherwise, the tap would queue up to 1000 frames, which are stale by then.
    ...buildPortSteps(tap, name, { ...wiring, floods: wiring.incomingPodUid === undefined }),
  ];
}

type Wiring = Omit<BridgeWiring, keyof TapOptions>;

/** Kinds of links that share their parent's MAC. A guest with its own MAC would receive no frames through them. Source: Linux ipvlan.rst */
const SHARED_MAC_KINDS = ["ipvlan", "ipvtap"];

export function canCarryVm(nic: Link): boolean {
  return !SHARED_MAC_KINDS.includes(nic.kind);
}

/**
 * Derives the bridge's MAC from the guest's by changing the first byte. By default, a bridge takes the lowest MAC of
 * its ports. If this were the guest's MAC, the bridge would consume the guest's frames.
 */
export function deriveBridgeMac(guestMac: string): string {
  const firstByte = guestMac.slice(0, 2).toLowerCase() === "5e" ? "5a" : "5e";
  return `${firstByte}${guestMac.slice(2).toLowerCase()}`;
}

/**
 * Derives the MAC of a pod NIC whose guest has not arrived or has left. The MAC depends only on the guest's MAC and the
 * pod, and differs from the MACs of bridges. Pods have different MACs, because macvlans of one parent cannot share a
 * MAC, and a switch would otherwise see one MAC at two ports.
 */
function deriveAwaitingMac(guestMac: string, podUid: string): string {
  const mac = guestMac.toLowerCase();
  const firstByte = mac.startsWith("56") ? "52" : "56";
  const otherBytes = hash("sha256", `${podUid} ${mac}`).slice(0, 10);
  return [firstByte, ...(otherBytes.match(/../g) ?? [])].join(":");
}

function canonicalAddress(text: string): string {
  const ip = parseIp(text);
  if (ip !== undefined) return `${printAddress(ip)}/${String(ip.length)}`;
  throw new AppError("PODNET_ARGUMENT_INVALID", {
    reason: `${JSON.stringify(text)} is not an IP address`,
  });
}

function listBridgeAddresses({ addresses }: PodReplies, mac: string): readonly string[] {
  const canonicalAddresses = addresses.map(canonicalAddress);
  return canonicalAddresses.some((address) => address.includes(":"))
    ? [...canonicalAddresses, `${toLinkLocal(deriveBridgeMac(mac))}/64`]
    : canonicalAddresses;
}

/** Returns an address's flags. Only link-local addresses get a route to their subnet, because the DHCP server requires this route. */
function chooseAddressFlags(address: string): readonly AddressFlag[] {
  if (!address.includes(":")) return ["noprefixroute"];
  return address.startsWith("fe80:") ? ["nodad"] : ["nodad", "noprefixroute"];
}

function buildAddressSteps(bridge: WiredLink | undefined, wiring: Wiring): readonly Step[] {
  const { bridgeName: link, replies } = wiring;
  const addresses = replies === undefined ? [] : listBridgeAddresses(replies, wiring.mac);
  const presentAddresses = bridge?.addresses ?? [];
  return [
    ...presentAddresses
      .filter((address) => !addresses.includes(address))
      .map((address) => ({
        isDone: false,
        change: { op: "deleteAddress", link, address } as const,
      })),
    ...addresses.map((address) => ({
      isDone: presentAddresses.includes(address),
      change: { op: "addAddress", link, address, flags: chooseAddressFlags(address) } as const,
    })),
  ];
}

/** Returns steps that create and configure a bridge without forward delay. The bridge answers ARP requests only if `answers` is true. */
export function buildBridgeSteps(
  bridge: WiredLink | undefined,
  bridgeName: string,
  { mac, answers }: { readonly mac: string; readonly answers: boolean },
): readonly Step[] {
  const isConfigured = bridge?.mac === mac && bridge.noArp === !answers;
  return [
    { isDone: bridge !== undefined, change: { op: "addBridge", link: bridgeName } },
    { isDone: bridge?.isPlainBridge !== false, change: { op: "makePlain", link: bridgeName } },
    buildLinkStep(isConfigured, bridgeName, { mac, addressGeneration: "none", arp: answers }),
    buildLinkStep(bridge?.up === true, bridgeName, { up: true }),
  ];
}

/** Lets a guest without a send guard exchange LLDP, 802.1X and LACP with the network's switch. */
function withSwitchFrames<W extends Wiring>(
  wiring: W,
): W & { readonly passesSwitchFrames: boolean } {
  return { ...wiring, passesSwitchFrames: wiring.guard === undefined };
}

/** Kinds of links whose MAC can change while the link is up. Source: Linux IFF_LIVE_ADDR_CHANGE in drivers/net/veth.c, macvlan.c */
const LIVE_MAC_CHANGE_KINDS = ["veth", "macvlan"];

function buildNicSteps(nic: WiredLink, wiring: Wiring): readonly Step[] {
  const { podInterfaceName: name, incomingPodUid } = wiring;
  const hasGuestMac = nic.mac.toLowerCase() === wiring.mac.toLowerCase();
  const hasWantedMac = incomingPodUid === undefined ? hasGuestMac : !hasGuestMac;
  const mac =
    incomingPodUid === undefined ? wiring.mac : deriveAwaitingMac(wiring.mac, incomingPodUid);
  // Setting the NIC down would lose frames of a running guest. The NIC stays up if its MAC need not change, or if it is
  // already a port of the bridge and can change its MAC while up.
  const staysUp =
    hasWantedMac || (nic.master === wiring.bridgeName && LIVE_MAC_CHANGE_KINDS.includes(nic.kind));
  return [
    ...buildAddressRemovalSteps(nic, wiring),
    buildLinkStep(staysUp, name, { up: false }),
    buildLinkStep(hasWantedMac, name, { mac }),
    ...buildPortSteps(staysUp ? nic : { ...nic, up: false }, name, withSwitchFrames(wiring)),
  ];
}

function buildOwnBridgeSteps(bridge: WiredLink | undefined, wiring: Wiring): readonly Step[] {
  const options = { mac: deriveBridgeMac(wiring.mac), answers: wiring.replies !== undefined };
  return [
    ...buildBridgeSteps(bridge, wiring.bridgeName, options),
    ...buildAddressSteps(bridge, wiring),
  ];
}

export function planWiring(
  nic: WiredLink,
  links: ReadonlyMap<string, WiredLink>,
  wiring: BridgeWiring,
): readonly LinkChange[] {
  return listMissingChanges([
    ...buildOwnBridgeSteps(links.get(wiring.bridgeName), wiring),
    ...buildTapSteps(links.get(wiring.tapName), wiring, withSwitchFrames(wiring)),
    ...buildNicSteps(nic, wiring),
  ]);
}

export function planBridge(
  nic: WiredLink,
  links: ReadonlyMap<string, WiredLink>,
  wiring: Wiring,
): readonly LinkChange[] {
  return listMissingChanges([
    ...buildOwnBridgeSteps(links.get(wiring.bridgeName), wiring),
    ...buildNicSteps(nic, wiring),
  ]);
}

/** Plans the deletion of the NIC's forwarding entry for the guest's MAC, unless `presentEntries` shows that none exists. */
export function planNicForwardingRemoval(
  { podInterfaceName, ...wiring }: Pick<Wiring, "podInterfaceName" | "mac">,
  presentEntries: readonly ForwardingEntry[] | undefined,
): readonly LinkChange[] {
  const mac = wiring.mac.toLowerCase();
  const hasNicEntry = presentEntries?.some(
    (entry) => entry.mac === mac && entry.device === podInterfaceName,
  );
  return hasNicEntry === false ? [] : [{ op: "deleteFdbEntry", link: podInterfaceName, mac }];
}

/**
 * Plans a forwarding entry for the guest's MAC at the tap. Deletes the kernel's entry for a NIC with this MAC, because
 * that entry delivers the guest's frames to the pod. `presentEntries` is undefined if a NIC has just joined the bridge.
 */
export function planForwarding(
  wiring: Pick<Wiring, "podInterfaceName" | "tapName" | "mac">,
  presentEntries: readonly ForwardingEntry[] | undefined,
): readonly LinkChange[] {
  const { tapName } = wiring;
  const mac = wiring.mac.toLowerCase();
  const hasTapEntry = presentEntries?.some(
    (entry) => entry.mac === mac && entry.device === tapName && entry.state === "static",
  );
  return [
    ...planNicForwardingRemoval(wiring, presentEntries),
    ...(hasTapEntry === true ? [] : [{ op: "replaceFdbEntry", link: tapName, mac } as const]),
  ];
}

export function isWired(
  links: ReadonlyMap<string, WiredLink>,
  presentEntries: readonly ForwardingEntry[],
  wiring: Wiring,
): boolean {
  const nic = links.get(wiring.podInterfaceName);
  if (nic === undefined) return false;
  const changes = planWiring(nic, links, { ...wiring, ...ANY_TAP });
  return changes.length === 0 && planForwarding(wiring, presentEntries).length === 0;
}

export function planUnwiring(
  links: readonly Link[],
  wiring: Pick<BridgeWiring, "tapName" | "bridgeName">,
): readonly LinkChange[] {
  return [wiring.tapName, wiring.bridgeName]
    .filter((name) => links.some((link) => link.name === name))
    .map((link) => ({ op: "deleteLink", link }));
}
