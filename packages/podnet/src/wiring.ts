// SPDX-License-Identifier: Apache-2.0
// Which commands make bridge and tap around a pod NIC, given the links that are there. Why each: docs/design/pod-links.md.
import type { Link, TapWiring } from "@patchbay/ports";
import type { ForwardingEntry } from "./links.ts";

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

function isUp(link: Link | undefined, wiring: TapWiring): boolean {
  return link?.master === wiring.bridgeName && link.up;
}

function bridgeCommands(bridge: Link | undefined, wiring: TapWiring): readonly string[] {
  const { bridgeName, mac } = wiring;
  if (bridge?.up === true) return [];
  return [
    ...(bridge === undefined
      ? [`link add ${bridgeName} type bridge stp_state 0 forward_delay 0 mcast_snooping 0`]
      : []),
    `link set ${bridgeName} address ${bridgeMacOf(mac)} addrgenmode none arp off`,
    `link set ${bridgeName} up`,
  ];
}

function nicCommands(nic: Link, wiring: TapWiring): readonly string[] {
  const { podInterfaceName: name, mac, bridgeName } = wiring;
  if (isUp(nic, wiring)) return [];
  return [
    `link set ${name} addrgenmode none`,
    `addr flush dev ${name}`,
    // A card may refuse another MAC while it is up.
    ...(nic.mac.toLowerCase() === mac.toLowerCase()
      ? []
      : [`link set ${name} down`, `link set ${name} address ${mac}`]),
    `link set ${name} master ${bridgeName}`,
    `link set ${name} type bridge_slave learning off`,
    `link set ${name} up`,
  ];
}

function tapCommands(tap: Link | undefined, wiring: TapWiring): readonly string[] {
  const { tapName, mtu, owner, bridgeName, queues } = wiring;
  const id = String(owner);
  // QEMU opens a tap of several queues once for each; one of a single queue refuses that, and the reverse.
  const flags = queues > 1 ? " multi_queue" : "";
  if (isUp(tap, wiring) && tap?.mtu === mtu) return [];
  return [
    ...(tap === undefined
      ? [`tuntap add dev ${tapName} mode tap${flags} user ${id} group ${id}`]
      : []),
    `link set ${tapName} addrgenmode none mtu ${String(mtu)}`,
    `link set ${tapName} master ${bridgeName}`,
    `link set ${tapName} up`,
  ];
}

/** Commands for `ip -batch` in order; none when all is there. The NIC is set last of a part, so that a part that ends early is seen. */
export function planWiring(
  nic: Link,
  links: ReadonlyMap<string, Link>,
  wiring: TapWiring,
): readonly string[] {
  return [
    ...bridgeCommands(links.get(wiring.bridgeName), wiring),
    ...tapCommands(links.get(wiring.tapName), wiring),
    ...nicCommands(nic, wiring),
  ];
}

/**
 * Commands for `bridge -batch`: the guest's MAC is behind the tap. Enslaving a NIC that has the guest's MAC makes
 * an entry that gives the guest's frames to the pod itself; `present` is undefined when that has just been done.
 */
export function planForwarding(
  wiring: TapWiring,
  present: readonly ForwardingEntry[] | undefined,
): readonly string[] {
  const { podInterfaceName, tapName } = wiring;
  const mac = wiring.mac.toLowerCase();
  const onNic = present?.some((entry) => entry.mac === mac && entry.device === podInterfaceName);
  const onTap = present?.some(
    (entry) => entry.mac === mac && entry.device === tapName && entry.state === "static",
  );
  return [
    ...(onNic === false ? [] : [`fdb del ${mac} dev ${podInterfaceName} master`]),
    ...(onTap === true ? [] : [`fdb replace ${mac} dev ${tapName} master static`]),
  ];
}

/** Commands for `ip -batch` that remove what is there: the tap before its bridge. */
export function planUnwiring(
  links: ReadonlyMap<string, Link>,
  wiring: Pick<TapWiring, "tapName" | "bridgeName">,
): readonly string[] {
  return [wiring.tapName, wiring.bridgeName]
    .filter((name) => links.has(name))
    .map((name) => `link del ${name}`);
}
