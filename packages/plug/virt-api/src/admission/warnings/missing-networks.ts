// SPDX-License-Identifier: Apache-2.0
// What a person is told about a declarative edit that names networks whose definitions are not there yet.
import { parseNadName } from "@patchbay/api";
import { messageOf, networkNameOf } from "@patchbay/core";
import type { Deps } from "../../deps.ts";
import { hasNad, nearestNetwork } from "../../networks/definitions.ts";
import { newNetworks, type Specs } from "../new-networks.ts";

/** One warning for each new network whose definition is not there yet. */
export async function missingNetworkWarnings(
  deps: Deps,
  specs: Specs,
  namespace: string,
): Promise<readonly string[]> {
  const warnings = await Promise.all(
    newNetworks(specs).map(async (network) => {
      const name = network.multus?.networkName ?? "";
      if (parseNadName(name) === undefined) return [];
      try {
        if (await hasNad(deps.known, name, namespace)) return [];
      } catch (error) {
        deps.log.warn("cannot look for a network", { network: name, err: messageOf(error) });
        return [];
      }
      const full = networkNameOf(network, namespace) ?? name;
      const nearest = nearestNetwork(deps, name, namespace);
      const near = nearest === undefined ? "" : ` (the nearest name is "${nearest}")`;
      return [
        `network "${network.name}": NetworkAttachmentDefinition "${full}" does not exist yet${near}; the interface waits for it`,
      ];
    }),
  );
  return warnings.flat();
}
