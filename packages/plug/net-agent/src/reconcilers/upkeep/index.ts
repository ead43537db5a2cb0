// SPDX-License-Identifier: Apache-2.0
// One round over all networks and attachments: STATUS, GC and CHECK. What they find is told, and changes nothing.
import type { Deps } from "../../deps.ts";
import { checkAttachments } from "./attachments.ts";
import { collectUnused } from "./collect.ts";
import { tellChanges, type Finding } from "./finding.ts";
import { listNetworks } from "./networks.ts";
import { askNetworks } from "./status.ts";

/** Makes what does one round, and knows what the rounds before have told. */
export function createUpkeep(deps: Deps): () => Promise<void> {
  let told: ReadonlyMap<string, Finding> = new Map();
  return async () => {
    const networks = await listNetworks(deps);
    const found = [
      ...(await askNetworks(networks, deps)),
      ...(await collectUnused(networks, deps)),
      ...(await checkAttachments(deps)),
    ];
    const now = new Map(found.map((finding) => [finding.key, finding]));
    tellChanges(told, now, deps);
    told = now;
  };
}
