// SPDX-License-Identifier: Apache-2.0
// Which links carry an iface, and for which MAC.
import type { ClusterSecurity } from "@patchbay/api";
import type { GuestLease } from "../../addresses/lease.ts";
import { BINDINGS, type BindingModule, type WiringFacts } from "../../bindings/binding.ts";
import type { SeenWiring } from "../../bindings/pod-wiring.ts";
import { addressAlone, sendGuardOf } from "../../bindings/send-guard.ts";
import type { IfaceFacts, LinkFacts } from "../facts.ts";
import { macOf, type MacFacts } from "../mac.ts";
import { namesOf } from "../names.ts";

/** What the links of an iface depend on. */
export type WiredIface = Pick<
  IfaceFacts,
  | "name"
  | "podInterfaceName"
  | "device"
  | "binding"
  | "network"
  | "remembered"
  | "security"
  | "awaitedIn"
> &
  MacFacts & {
    readonly links?: Partial<Pick<LinkFacts, "mac" | "mtu" | "tapName" | "addresses">>;
  };

/** How the links of an iface are handled. One that is refused now may have some that were made when it was not. */
export function moduleOf({ binding }: Pick<IfaceFacts, "binding">): BindingModule {
  return BINDINGS[binding.kind === "refused" ? (binding.left ?? "bridge") : binding.kind];
}

/** Whether a hook makes the NIC, so that nothing is made around it. */
export function isByHook({ binding }: Pick<IfaceFacts, "binding">): boolean {
  return binding.kind === "hook";
}

/** What a binding decides by. A guest that has the NIC sends with the MAC of its device, whatever the spec says by now. */
function wiringFactsOf(facts: WiredIface): WiringFacts {
  const { iface, network, links = {}, remembered } = facts;
  const names = namesOf(facts.name, facts.podInterfaceName);
  return {
    podInterfaceName: names.podInterfaceName,
    bridgeName: names.bridgeName,
    tapName: links.tapName ?? names.tapName,
    mac: facts.device?.mac ?? macOf(facts),
    mtu: links.mtu ?? 0,
    podAddresses: links.addresses ?? [],
    ...(iface === undefined ? {} : { iface }),
    ...(network === undefined ? {} : { network }),
    ...(remembered === undefined ? {} : { remembered }),
  };
}

const NOTHING_SAID: ClusterSecurity = { mode: "Off", enforced: false };
/** Behind the pod's addresses the guest is alone with its gateway: what it calls itself on that link is its own matter. */
const ANY_LINK_LOCAL = "fe80::/10";

/**
 * What is the guest's to claim: what the kernel had on the pod NIC. The pod's annotations are words, which whoever may
 * edit pods can write.
 */
function givenAddressesOf(wiring: SeenWiring, facts: WiredIface): readonly string[] {
  if (wiring.kind === "masquerade") {
    const guests = [wiring.ipv4, wiring.ipv6].flatMap((subnet) => subnet?.guest ?? []);
    return [...guests, ANY_LINK_LOCAL];
  }
  const given = facts.remembered?.addresses ?? facts.links?.addresses ?? [];
  return [...new Set(given.map(addressAlone))];
}

/** The links of an iface, and what its guest may send; undefined: it needs none. */
export function wiringOf(facts: WiredIface): SeenWiring | undefined {
  const { iface, network, awaitedIn, security: cluster = NOTHING_SAID } = facts;
  const made = moduleOf(facts).wiringOf(wiringFactsOf(facts));
  const wiring = made && { ...made, ...(awaitedIn !== undefined && { awaitedIn }) };
  if (wiring === undefined || iface === undefined || network === undefined) return wiring;
  const addresses = givenAddressesOf(wiring, facts);
  const guard = sendGuardOf({ iface, network, cluster, mac: wiring.mac, addresses });
  return guard === undefined ? wiring : { ...wiring, guard };
}

/** What the pod gives the guest by DHCP at an iface; undefined: nothing. */
export function leaseOf(facts: WiredIface): GuestLease | undefined {
  return moduleOf(facts).leaseOf(wiringFactsOf(facts));
}

/** What of an iface is the NIC's in the pod, and so of one network. */
type OfNic = "attachment" | "remembered" | "swap";
const OF_NIC: readonly string[] = ["attachment", "remembered", "swap"] satisfies OfNic[];

/** The iface as it is on the network to which it is to move. */
export function onSwap<Facts extends object, There>(
  facts: Facts & { readonly swap: There },
): Omit<Facts, OfNic> & There {
  const others = Object.entries(facts).filter(([key]) => !OF_NIC.includes(key));
  // What is left out is left out of the type.
  return { ...(Object.fromEntries(others) as Omit<Facts, OfNic>), ...facts.swap };
}
