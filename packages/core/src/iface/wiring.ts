// SPDX-License-Identifier: Apache-2.0
// Which links carry an iface, and for which MAC.
import type { GuestLease } from "../addresses/lease.ts";
import type { BindingModule, WiringFacts } from "../bindings/binding.ts";
import type { SeenWiring } from "../bindings/pod-wiring.ts";
import { BINDINGS } from "../bindings/table.ts";
import type { IfaceFacts, LinkFacts } from "./facts.ts";
import { macOf, type MacFacts } from "./mac.ts";
import { namesOf } from "./names.ts";

/** What the links of an iface depend on. */
export type WiredIface = Pick<
  IfaceFacts,
  "name" | "podInterfaceName" | "device" | "binding" | "network" | "remembered"
> &
  MacFacts & { readonly links?: Partial<Pick<LinkFacts, "mac" | "mtu" | "tapName">> };

/** How the links of an iface are handled. One that is refused now may have some that were made when it was not. */
export function moduleOf({ binding }: Pick<IfaceFacts, "binding">): BindingModule {
  return BINDINGS[binding.kind === "refused" ? (binding.left ?? "bridge") : binding.kind];
}

/** What a binding decides by. A guest that has the NIC sends with the MAC of its device, whatever the spec says by now. */
function wiringFactsOf(facts: WiredIface): WiringFacts {
  const { iface, network, links, remembered } = facts;
  const names = namesOf(facts.name, facts.podInterfaceName);
  return {
    podInterfaceName: names.podInterfaceName,
    bridgeName: names.bridgeName,
    tapName: links?.tapName ?? names.tapName,
    mac: facts.device?.mac ?? macOf(facts),
    mtu: links?.mtu ?? 0,
    ...(iface === undefined ? {} : { iface }),
    ...(network === undefined ? {} : { network }),
    ...(remembered === undefined ? {} : { remembered }),
  };
}

/** The links of an iface. */
export function wiringOf(facts: WiredIface): SeenWiring {
  return moduleOf(facts).wiringOf(wiringFactsOf(facts));
}

/** What the pod gives the guest by DHCP at an iface; undefined: nothing. */
export function leaseOf(facts: WiredIface): GuestLease | undefined {
  return moduleOf(facts).leaseOf(wiringFactsOf(facts));
}
