// SPDX-License-Identifier: Apache-2.0
// Plans the link changes that make bridge and tap around a pod NIC, as steps that are skipped when they are done. Details:
// docs/design/pod-links.md.
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

type OnBridge = Pick<BridgeWiring, "bridgeName">;
/** Flooding stays unchanged if `floods` is unset. */
type PortOptions = OnBridge & {
  readonly floods?: boolean;
  readonly passesSwitchFrames?: boolean;
};

interface Step {
  readonly isDone: boolean;
  readonly change: LinkChange;
}

export function missingChanges(steps: readonly Step[]): readonly LinkChange[] {
  return steps.flatMap(({ isDone, change }) => (isDone ? [] : [change]));
}

function linkStep(isDone: boolean, link: string, settings: LinkSettings): Step {
  return { isDone, change: { op: "setLink", link, settings } };
}

function portSteps(
  port: WiredLink | undefined,
  name: string,
  { floods, passesSwitchFrames = false, ...wiring }: PortOptions,
): readonly Step[] {
  const isPort = port?.master === wiring.bridgeName;
  const doesFlood = !isPort || port.flooding;
  const isFloodingRight = floods === undefined || floods === doesFlood;
  const doesPass = isPort && port.passesSwitchFrames;
  return [
    linkStep(isPort, name, { master: wiring.bridgeName }),
    linkStep(isPort && !port.learning, name, { learning: false }),
    ...(isFloodingRight ? [] : [linkStep(false, name, { flooding: floods })]),
    ...(passesSwitchFrames === doesPass ? [] : [linkStep(false, name, { passesSwitchFrames })]),
    linkStep(port?.up === true, name, { up: true }),
  ];
}

/** Removes addresses, which the guest owns. Their generation mode is not observed; without addresses it counts as set. */
function removeAddressSteps(port: WiredLink, wiring: OnBridge): readonly Step[] {
  const isDone = port.master === wiring.bridgeName && port.addresses.length === 0;
  return [
    linkStep(isDone, port.name, { addressGeneration: "none" }),
    { isDone, change: { op: "flushAddresses", link: port.name } },
  ];
}

/** Settings that are fixed when the tap is created. */
type TapOptions = Pick<BridgeWiring, "owner" | "queues">;
type TapWiring = Pick<BridgeWiring, "bridgeName" | "tapName" | "mtu" | "incomingPodUid"> & {
  readonly passesSwitchFrames?: boolean;
};

export const ANY_TAP: TapOptions = { owner: 0, queues: 1 };

export function tapSteps(
  tap: WiredLink | undefined,
  { owner, queues }: TapOptions,
  wiring: TapWiring,
): readonly Step[] {
  const { tapName: name, mtu } = wiring;
  // QEMU opens a multi-queue tap once per queue. The kernel opens a tap only in the mode in which it was created.
  const isMultiQueue = queues > 1;
  return [
    { isDone: tap !== undefined, change: { op: "addTap", link: name, owner, isMultiQueue } },
    ...(tap === undefined
      ? [linkStep(false, name, { addressGeneration: "none" })]
      : removeAddressSteps(tap, wiring)),
    linkStep(tap?.mtu === mtu, name, { mtu }),
    // A tap that is not read yet queues up to 1000 frames, which are stale when the guest arrives.
    ...portSteps(tap, name, { ...wiring, floods: wiring.incomingPodUid === undefined }),
  ];
}

type Wiring = Omit<BridgeWiring, keyof TapOptions>;

/** Kinds that share the MAC of their parent, so that frames for the guest never arrive. Source: Linux ipvlan.rst */
const SHARED_MAC_KINDS = ["ipvlan", "ipvtap"];

export function canCarryVm(nic: Link): boolean {
  return !SHARED_MAC_KINDS.includes(nic.kind);
}

/**
 * Derives the bridge's own MAC: local, unicast, the guest's with another first byte. By default a bridge takes the
 * lowest MAC of its ports, which is the guest's, and consumes the guest's frames.
 */
export function deriveBridgeMac(guestMac: string): string {
  const first = guestMac.slice(0, 2).toLowerCase() === "5e" ? "5a" : "5e";
  return `${first}${guestMac.slice(2).toLowerCase()}`;
}

/**
 * Derives the MAC of a pod NIC whose guest has not arrived or has left: local, unicast, different from our bridges'
 * MACs, and always the same for a pod. It depends on the pod because macvlans of one parent cannot share a MAC, and a
 * switch would see it at two ports.
 */
function deriveAwaitingMac(guestMac: string, podUid: string): string {
  const mac = guestMac.toLowerCase();
  const first = mac.startsWith("56") ? "52" : "56";
  const rest = hash("sha256", `${podUid} ${mac}`).slice(0, 10);
  return [first, ...(rest.match(/../g) ?? [])].join(":");
}

function canonicalAddress(text: string): string {
  const ip = parseIp(text);
  if (ip !== undefined) return `${printAddress(ip)}/${String(ip.length)}`;
  throw new AppError("PODNET_ARGUMENT_INVALID", {
    reason: `${JSON.stringify(text)} is not an IP address`,
  });
}

function listBridgeAddresses({ addresses }: PodReplies, mac: string): readonly string[] {
  const own = addresses.map(canonicalAddress);
  return own.some((address) => address.includes(":"))
    ? [...own, `${toLinkLocal(deriveBridgeMac(mac))}/64`]
    : own;
}

/** Returns flags by which only the link-local address adds its route, over which the DHCP server reaches the guest. */
function addressFlags(address: string): readonly AddressFlag[] {
  if (!address.includes(":")) return ["noprefixroute"];
  return address.startsWith("fe80:") ? ["nodad"] : ["nodad", "noprefixroute"];
}

function addressSteps(bridge: WiredLink | undefined, wiring: Wiring): readonly Step[] {
  const { bridgeName: link, replies } = wiring;
  const addresses = replies === undefined ? [] : listBridgeAddresses(replies, wiring.mac);
  const present = bridge?.addresses ?? [];
  return [
    ...present
      .filter((address) => !addresses.includes(address))
      .map((address) => ({
        isDone: false,
        change: { op: "deleteAddress", link, address } as const,
      })),
    ...addresses.map((address) => ({
      isDone: present.includes(address),
      change: { op: "addAddress", link, address, flags: addressFlags(address) } as const,
    })),
  ];
}

/** Returns steps to a bridge that forwards at once and, with `answers`, answers ARP for its own addresses. */
export function bridgeSteps(
  bridge: WiredLink | undefined,
  bridgeName: string,
  { mac, answers }: { readonly mac: string; readonly answers: boolean },
): readonly Step[] {
  const isConfigured = bridge?.mac === mac && bridge.noArp === !answers;
  return [
    { isDone: bridge !== undefined, change: { op: "addBridge", link: bridgeName } },
    { isDone: bridge?.isPlainBridge !== false, change: { op: "makePlain", link: bridgeName } },
    linkStep(isConfigured, bridgeName, { mac, addressGeneration: "none", arp: answers }),
    linkStep(bridge?.up === true, bridgeName, { up: true }),
  ];
}

/** Lets a guest without a send guard exchange LLDP, 802.1X and LACP with the network's switch, past the pod's bridge. */
function withSwitchFrames<W extends Wiring>(
  wiring: W,
): W & { readonly passesSwitchFrames: boolean } {
  return { ...wiring, passesSwitchFrames: wiring.guard === undefined };
}

/** Kinds whose MAC may change while they are up. Source: Linux IFF_LIVE_ADDR_CHANGE in drivers/net/veth.c, macvlan.c */
const LIVE_MAC_CHANGE_KINDS = ["veth", "macvlan"];

function nicSteps(nic: WiredLink, wiring: Wiring): readonly Step[] {
  const { podInterfaceName: name, incomingPodUid } = wiring;
  const isGuests = nic.mac.toLowerCase() === wiring.mac.toLowerCase();
  const hasMac = incomingPodUid === undefined ? isGuests : !isGuests;
  const mac =
    incomingPodUid === undefined ? wiring.mac : deriveAwaitingMac(wiring.mac, incomingPodUid);
  // Some NICs refuse a MAC change while up. The others stay up, so that a guest that is already there loses no frame.
  const staysUp =
    hasMac || (nic.master === wiring.bridgeName && LIVE_MAC_CHANGE_KINDS.includes(nic.kind));
  return [
    ...removeAddressSteps(nic, wiring),
    linkStep(staysUp, name, { up: false }),
    linkStep(hasMac, name, { mac }),
    ...portSteps(staysUp ? nic : { ...nic, up: false }, name, withSwitchFrames(wiring)),
  ];
}

function ownBridgeSteps(bridge: WiredLink | undefined, wiring: Wiring): readonly Step[] {
  const own = { mac: deriveBridgeMac(wiring.mac), answers: wiring.replies !== undefined };
  return [...bridgeSteps(bridge, wiring.bridgeName, own), ...addressSteps(bridge, wiring)];
}

export function planWiring(
  nic: WiredLink,
  links: ReadonlyMap<string, WiredLink>,
  wiring: BridgeWiring,
): readonly LinkChange[] {
  return missingChanges([
    ...ownBridgeSteps(links.get(wiring.bridgeName), wiring),
    ...tapSteps(links.get(wiring.tapName), wiring, withSwitchFrames(wiring)),
    ...nicSteps(nic, wiring),
  ]);
}

export function planBridge(
  nic: WiredLink,
  links: ReadonlyMap<string, WiredLink>,
  wiring: Wiring,
): readonly LinkChange[] {
  return missingChanges([
    ...ownBridgeSteps(links.get(wiring.bridgeName), wiring),
    ...nicSteps(nic, wiring),
  ]);
}

/** Plans to delete the forwarding entry of the NIC, unless `present` shows that there is none. */
export function planNicForwardingRemoval(
  { podInterfaceName, ...wiring }: Pick<Wiring, "podInterfaceName" | "mac">,
  present: readonly ForwardingEntry[] | undefined,
): readonly LinkChange[] {
  const mac = wiring.mac.toLowerCase();
  const hasNicEntry = present?.some(
    (entry) => entry.mac === mac && entry.device === podInterfaceName,
  );
  return hasNicEntry === false ? [] : [{ op: "deleteForwarding", link: podInterfaceName, mac }];
}

/**
 * Plans an entry that forwards the guest's MAC to the tap. A NIC with the guest's MAC that is added to a bridge creates
 * an entry that delivers the guest's frames to the pod itself. `present` is undefined if a NIC was just added.
 */
export function planForwarding(
  wiring: Pick<Wiring, "podInterfaceName" | "tapName" | "mac">,
  present: readonly ForwardingEntry[] | undefined,
): readonly LinkChange[] {
  const { tapName } = wiring;
  const mac = wiring.mac.toLowerCase();
  const hasTapEntry = present?.some(
    (entry) => entry.mac === mac && entry.device === tapName && entry.state === "static",
  );
  return [
    ...planNicForwardingRemoval(wiring, present),
    ...(hasTapEntry === true ? [] : [{ op: "replaceForwarding", link: tapName, mac } as const]),
  ];
}

export function isWired(
  links: ReadonlyMap<string, WiredLink>,
  present: readonly ForwardingEntry[],
  wiring: Wiring,
): boolean {
  const nic = links.get(wiring.podInterfaceName);
  if (nic === undefined) return false;
  const changes = planWiring(nic, links, { ...wiring, ...ANY_TAP });
  return changes.length === 0 && planForwarding(wiring, present).length === 0;
}

export function planUnwiring(
  links: readonly Link[],
  wiring: Pick<BridgeWiring, "tapName" | "bridgeName">,
): readonly LinkChange[] {
  return [wiring.tapName, wiring.bridgeName]
    .filter((name) => links.some((link) => link.name === name))
    .map((link) => ({ op: "deleteLink", link }));
}
