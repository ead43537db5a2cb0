// SPDX-License-Identifier: Apache-2.0
// Which wirings should be in the pod, and what it means for the ifaces that the pod network finds them whole.
import type { SeenWiring } from "../../bindings/pod-wiring.ts";
import type { IfaceFacts, LinkFacts } from "../facts.ts";
import { namesOf } from "../names.ts";
import { isByHook, moduleOf, onSwap, wiringOf, type WiredIface } from "./wiring.ts";

/** An iface on one network. */
type OnNetwork = WiredIface & { readonly links: LinkFacts };

function wiringsOn(iface: OnNetwork): readonly SeenWiring[] {
  return iface.links.podInterface && !isByHook(iface) ? [wiringOf(iface) ?? []].flat() : [];
}

/** The wirings that should be there: one around each NIC of the pod, also around the one to which a device moves. */
export function expectedWirings(ifaces: readonly IfaceFacts[]): readonly SeenWiring[] {
  return ifaces.flatMap((iface) => {
    const { swap } = iface;
    const there = swap === undefined ? [] : wiringsOn(onSwap({ ...iface, swap }));
    return [...wiringsOn(iface), ...there];
  });
}

/** What is no link of the kernel has been judged already. */
function judged(
  iface: Pick<IfaceFacts, "name" | "podInterfaceName" | "links" | "binding">,
  wiredTaps: ReadonlySet<string>,
): LinkFacts {
  const { name, podInterfaceName, links } = iface;
  if (moduleOf(iface).kind === "vhostuser") return links;
  const tapName = links.tapName ?? namesOf(name, podInterfaceName).tapName;
  return { ...links, wired: links.podInterface && wiredTaps.has(tapName) };
}

/** The facts of the ifaces, with what the pod network says: names of the taps of those wirings that are whole. */
export function withWired(
  ifaces: readonly IfaceFacts[],
  wiredTaps: ReadonlySet<string>,
): readonly IfaceFacts[] {
  return ifaces.map((iface) => {
    // Nothing is made around the NIC that a hook makes, so that all of it is there.
    const links = isByHook(iface)
      ? { ...iface.links, wired: iface.links.podInterface }
      : judged(iface, wiredTaps);
    const { name, binding, swap } = iface;
    if (swap === undefined) return { ...iface, links };
    return {
      ...iface,
      links,
      swap: { ...swap, links: judged({ name, binding, ...swap }, wiredTaps) },
    };
  });
}
