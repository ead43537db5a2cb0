// SPDX-License-Identifier: Apache-2.0
// Which changes make bridge and tap around a pod NIC, given the links that are there? Why each: docs/design/pod-links.md.
import { hash } from "node:crypto";
import { linkLocalOf, parseIp, printAddress } from "@patchbay/api";
import { AppError, type BridgeWiring, type PodAnswers } from "@patchbay/core";
import type { Link } from "@patchbay/core/ports";
import type { AddressFlag, LinkChange } from "../link-change.ts";
import type { ForwardingEntry, WiredLink } from "../links.ts";
import { changesOf, portSteps, setting, silenceSteps, type Step } from "./link-steps.ts";
import { ANY_TAP, tapSteps, type Tap } from "./tap-plan.ts";

/** What can be seen to be there. */
type Wiring = Omit<BridgeWiring, keyof Tap>;

/** Kinds that share the MAC of their parent, so that a guest's own frames never arrive. Source: Linux ipvlan.rst */
const CANNOT_CARRY = ["ipvlan", "ipvtap"];

/** Whether a guest behind a bridge can be reached through a NIC of this kind. */
export function canCarryVm(nic: Link): boolean {
  return !CANNOT_CARRY.includes(nic.kind);
}

/**
 * The bridge's own MAC: local, unicast, the guest's with another first byte. Without it a bridge takes
 * the lowest MAC of its ports, which is the guest's, and swallows the guest's frames.
 */
export function bridgeMacOf(guestMac: string): string {
  const first = guestMac.slice(0, 2).toLowerCase() === "5e" ? "5a" : "5e";
  return `${first}${guestMac.slice(2).toLowerCase()}`;
}

/**
 * A MAC for the NIC of a pod to which the guest is still to come, or that it has left: local, unicast, no bridge's of ours, and the same
 * each time. Two such pods of one guest have two: macvlans of one parent cannot have one MAC, and a switch would hear it in two places.
 */
function awaitingMacOf(guestMac: string, podUid: string): string {
  const mac = guestMac.toLowerCase();
  const first = mac.startsWith("56") ? "52" : "56";
  const rest = hash("sha256", `${podUid} ${mac}`).slice(0, 10);
  return [first, ...(rest.match(/../g) ?? [])].join(":");
}

/** As the kernel prints it. */
function printed(text: string): string {
  const ip = parseIp(text);
  if (ip !== undefined) return `${printAddress(ip)}/${String(ip.length)}`;
  throw new AppError("PODNET_ARGUMENT_INVALID", {
    reason: `${JSON.stringify(text)} is not an IP address`,
  });
}

/** What the bridge answers from: with IPv6 it needs a link-local address too. */
function bridgeAddressesOf({ addresses }: PodAnswers, mac: string): readonly string[] {
  const own = addresses.map(printed);
  return own.some((address) => address.includes(":"))
    ? [...own, `${linkLocalOf(bridgeMacOf(mac))}/64`]
    : own;
}

/**
 * How an address is put on the bridge. Only the link-local one brings its route: by it the DHCP server finds the guest,
 * and a pod has no other business with what is on the link.
 */
function flagsOf(address: string): readonly AddressFlag[] {
  if (!address.includes(":")) return ["noprefixroute"];
  return address.startsWith("fe80:") ? ["nodad"] : ["nodad", "noprefixroute"];
}

/** The bridge has exactly the addresses from which the pod answers. */
function addressSteps(bridge: WiredLink | undefined, wiring: Wiring): readonly Step[] {
  const { bridgeName: link, answers } = wiring;
  const wanted = answers === undefined ? [] : bridgeAddressesOf(answers, wiring.mac);
  const present = bridge?.addresses ?? [];
  return [
    ...present
      .filter((address) => !wanted.includes(address))
      .map((address) => ({
        isDone: false,
        change: { op: "deleteAddress", link, address } as const,
      })),
    ...wanted.map((address) => ({
      isDone: present.includes(address),
      change: { op: "addAddress", link, address, flags: flagsOf(address) } as const,
    })),
  ];
}

/** A bridge that forwards at once; `answers`: it has addresses of its own, for which it answers. */
export function bridgeSteps(
  bridge: WiredLink | undefined,
  bridgeName: string,
  { mac, answers }: { readonly mac: string; readonly answers: boolean },
): readonly Step[] {
  const isHeard = bridge?.mac === mac && bridge.noArp === !answers;
  return [
    { isDone: bridge !== undefined, change: { op: "addBridge", link: bridgeName } },
    { isDone: bridge?.plain !== false, change: { op: "makePlain", link: bridgeName } },
    setting(isHeard, bridgeName, { mac, addressGeneration: "none", arp: answers }),
    setting(bridge?.up === true, bridgeName, { up: true }),
  ];
}

/** A guest that is held to nothing speaks LLDP, 802.1X and LACP with the network's switch, past the bridge in the pod. */
function withSwitchFrames<W extends Wiring>(
  wiring: W,
): W & { readonly passesSwitchFrames: boolean } {
  return { ...wiring, passesSwitchFrames: wiring.guard === undefined };
}

/** Kinds whose MAC may change while they are up. Source: Linux IFF_LIVE_ADDR_CHANGE in drivers/net/veth.c, macvlan.c */
const CHANGES_LIVE = ["veth", "macvlan"];

function nicSteps(nic: WiredLink, wiring: Wiring): readonly Step[] {
  const { podInterfaceName: name, awaitedIn } = wiring;
  const isGuests = nic.mac.toLowerCase() === wiring.mac.toLowerCase();
  const hasMac = awaitedIn === undefined ? isGuests : !isGuests;
  const mac = awaitedIn === undefined ? wiring.mac : awaitingMacOf(wiring.mac, awaitedIn);
  // A card may refuse another MAC while it is up. Where the guest has come, no frame of it is to be lost.
  const staysUp = hasMac || (nic.master === wiring.bridgeName && CHANGES_LIVE.includes(nic.kind));
  return [
    ...silenceSteps(nic, wiring),
    setting(staysUp, name, { up: false }),
    setting(hasMac, name, { mac }),
    ...portSteps(staysUp ? nic : { ...nic, up: false }, name, withSwitchFrames(wiring)),
  ];
}

/** The bridge, as the pod needs it: a pod that answers the guest must find it, and be found. */
function ownBridgeSteps(bridge: WiredLink | undefined, wiring: Wiring): readonly Step[] {
  const own = { mac: bridgeMacOf(wiring.mac), answers: wiring.answers !== undefined };
  return [...bridgeSteps(bridge, wiring.bridgeName, own), ...addressSteps(bridge, wiring)];
}

/** Changes in order; none when all is there. Each that is missing is made, wherever an earlier run ended. */
export function planWiring(
  nic: WiredLink,
  links: ReadonlyMap<string, WiredLink>,
  wiring: BridgeWiring,
): readonly LinkChange[] {
  return changesOf([
    ...ownBridgeSteps(links.get(wiring.bridgeName), wiring),
    ...tapSteps(links.get(wiring.tapName), wiring, withSwitchFrames(wiring)),
    ...nicSteps(nic, wiring),
  ]);
}

/** The same without the tap. */
export function planBridge(
  nic: WiredLink,
  links: ReadonlyMap<string, WiredLink>,
  wiring: Wiring,
): readonly LinkChange[] {
  return changesOf([
    ...ownBridgeSteps(links.get(wiring.bridgeName), wiring),
    ...nicSteps(nic, wiring),
  ]);
}

/** The change that takes away the entry of the NIC; none where it is seen not to be there. */
export function planNicForwarding(
  { podInterfaceName, ...wiring }: Pick<Wiring, "podInterfaceName" | "mac">,
  present: readonly ForwardingEntry[] | undefined,
): readonly LinkChange[] {
  const mac = wiring.mac.toLowerCase();
  const onNic = present?.some((entry) => entry.mac === mac && entry.device === podInterfaceName);
  return onNic === false ? [] : [{ op: "deleteForwarding", link: podInterfaceName, mac }];
}

/**
 * The guest's MAC is behind the tap. Enslaving a NIC that has the guest's MAC makes
 * an entry that gives the guest's frames to the pod itself; `present` is undefined when that has just been done.
 */
export function planForwarding(
  wiring: Pick<Wiring, "podInterfaceName" | "tapName" | "mac">,
  present: readonly ForwardingEntry[] | undefined,
): readonly LinkChange[] {
  const { tapName } = wiring;
  const mac = wiring.mac.toLowerCase();
  const onTap = present?.some(
    (entry) => entry.mac === mac && entry.device === tapName && entry.state === "static",
  );
  return [
    ...planNicForwarding(wiring, present),
    ...(onTap === true ? [] : [{ op: "replaceForwarding", link: tapName, mac } as const]),
  ];
}

/** Whether there is nothing to be done for a wiring. */
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

/** Changes that remove what is there: the tap before its bridge. */
export function planUnwiring(
  links: readonly Link[],
  wiring: Pick<BridgeWiring, "tapName" | "bridgeName">,
): readonly LinkChange[] {
  return [wiring.tapName, wiring.bridgeName]
    .filter((name) => links.some((link) => link.name === name))
    .map((link) => ({ op: "deleteLink", link }));
}
