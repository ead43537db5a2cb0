// SPDX-License-Identifier: Apache-2.0
// Which links carry an iface, and for which MAC.
import type { IfaceFacts } from "./facts.ts";
import { macOf, type MacFacts } from "./mac.ts";
import { namesOf } from "./names.ts";

/** Bridge and tap around a pod NIC. */
export interface LinkWiring {
  readonly podInterfaceName: string;
  readonly bridgeName: string;
  readonly tapName: string;
  /** The guest's. */
  readonly mac: string;
}

/** What the links of an iface depend on. */
export type WiredIface = Pick<IfaceFacts, "name" | "podInterfaceName" | "device"> & MacFacts;

/** The links of an iface. A guest that has the NIC sends with the MAC of its device, whatever the spec says by now. */
export function wiringOf(facts: WiredIface): LinkWiring {
  const { podInterfaceName, bridgeName, tapName } = namesOf(facts.name, facts.podInterfaceName);
  return { podInterfaceName, bridgeName, tapName, mac: facts.device?.mac ?? macOf(facts) };
}
