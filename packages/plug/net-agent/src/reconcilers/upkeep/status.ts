// SPDX-License-Identifier: Apache-2.0
// Can the networks that pods of this node ask for be attached? Plugins that know the question are asked; ADD does not wait
// for it, since it gives the answer itself, and that of an hour ago may be wrong.
import { isAppError } from "@patchbay/core";
import type { Deps } from "../../deps.ts";
import { networksAskedBy } from "../../wake.ts";
import type { Finding } from "./finding.ts";
import type { UsableNetwork } from "./networks.ts";

/** Asks the default network, and each that is used here; what keeps those from working that answer so. */
export async function askNetworks(
  networks: readonly UsableNetwork[],
  deps: Deps,
): Promise<readonly Finding[]> {
  const asked = new Set(deps.pods.list().flatMap(networksAskedBy));
  const found: Finding[] = [];
  for (const { name, definition, config } of networks) {
    if (definition !== undefined && !asked.has(name)) continue;
    try {
      await deps.cni.status(config);
    } catch (error) {
      if (!isAppError(error)) throw error;
      found.push({
        key: `status ${name}`,
        about: "status",
        error,
        ...(definition && { object: definition }),
        reason: "NetworkNotReady",
        subject: "this node cannot attach it now",
        over: { reason: "NetworkReady", message: "this node can attach it again" },
      });
    }
  }
  return found;
}
