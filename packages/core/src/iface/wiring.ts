// SPDX-License-Identifier: Apache-2.0
// Which links carry an iface, and for which MAC.
import type { BindingModule } from "../bindings/binding.ts";
import type { SeenWiring } from "../bindings/pod-wiring.ts";
import { BINDINGS } from "../bindings/table.ts";
import type { IfaceFacts, LinkFacts } from "./facts.ts";
import { macOf, type MacFacts } from "./mac.ts";
import { namesOf } from "./names.ts";

/** What the links of an iface depend on. */
export type WiredIface = Pick<
  IfaceFacts,
  "name" | "podInterfaceName" | "device" | "binding" | "network"
> &
  MacFacts & { readonly links?: Partial<Pick<LinkFacts, "mac" | "mtu" | "tapName">> };

/** How the links of an iface are handled. One that is refused has none but what an older version made of it: a bridge. */
export function moduleOf({ binding }: Pick<IfaceFacts, "binding">): BindingModule {
  return BINDINGS[binding.kind === "refused" ? "bridge" : binding.kind];
}

/** The links of an iface. A guest that has the NIC sends with the MAC of its device, whatever the spec says by now. */
export function wiringOf(facts: WiredIface): SeenWiring {
  const { iface, network, links } = facts;
  const names = namesOf(facts.name, facts.podInterfaceName);
  return moduleOf(facts).wiringOf({
    podInterfaceName: names.podInterfaceName,
    bridgeName: names.bridgeName,
    tapName: links?.tapName ?? names.tapName,
    mac: facts.device?.mac ?? macOf(facts),
    mtu: links?.mtu ?? 0,
    ...(iface === undefined ? {} : { iface }),
    ...(network === undefined ? {} : { network }),
  });
}
