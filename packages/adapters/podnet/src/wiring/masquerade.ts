// SPDX-License-Identifier: Apache-2.0
// A guest behind the addresses of the pod NIC, which stays out of the bridge: links, settings, rules, addresses.
import { AppError, type MasqueradeWiring } from "@patchbay/core";
import { natTable } from "../nft/nat.ts";
import { hasTable, replacementText } from "../nft/table.ts";
import { unwireBridge } from "./bridge.ts";
import { planForwarding } from "./bridge-plan.ts";
import { isRouted, planAddresses, planLinks, planSettings } from "./masquerade-plan.ts";
import type { Pod, NetnsState, Wirer } from "./wirer.ts";

/** The rules come before the addresses: nothing is forwarded that they do not know. */
async function wire(pod: Pod, wiring: MasqueradeWiring, before: NetnsState): Promise<void> {
  if (!before.links.has(wiring.podInterfaceName)) {
    throw new AppError("PODNET_LINK_MISSING", { link: wiring.podInterfaceName });
  }
  const table = natTable(wiring);
  if (!hasTable(before.tables, table)) await pod.nft(replacementText(table));
  await pod.change(planLinks(before.links, wiring));
  const made = await pod.see();
  await pod.set(planSettings(made.settings, wiring));
  await pod.change(planAddresses(made.links, wiring));
  await pod.change(planForwarding(wiring, made.forwarding));
}

export const MASQUERADE: Wirer<"masquerade"> = {
  isWired: (state, wiring) =>
    state.links.has(wiring.podInterfaceName) &&
    hasTable(state.tables, natTable(wiring)) &&
    isRouted(state, wiring),
  wire,
  unwire: unwireBridge,
};
