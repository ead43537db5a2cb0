// SPDX-License-Identifier: Apache-2.0
// What a person is told about a declarative edit that runs ahead of the world.
import { parseNadName, type Network, type VmiSpec } from "@patchbay/api";
import { findByName, messageOf, networkNameOf, networksOf } from "@patchbay/core";
import type { Deps } from "../routes/call.ts";
import { hasNad } from "../routes/add-iface.ts";

/** The specification of a request, and what was stored before. */
export interface Specs {
  readonly spec: VmiSpec;
  readonly old: VmiSpec | undefined;
}

/** Whether the network is not the one that was named before. */
export function isNewNetwork(network: Network, old: VmiSpec | undefined): boolean {
  const before = findByName(old?.networks, network.name);
  return before?.multus?.networkName !== network.multus?.networkName;
}

/** One warning for each new network whose definition is not there yet. */
export async function warningsFor(
  deps: Deps,
  specs: Specs,
  namespace: string,
): Promise<readonly string[]> {
  const added = networksOf(specs.spec).filter((network) => isNewNetwork(network, specs.old));
  const warnings = await Promise.all(
    added.map(async (network) => {
      const name = network.multus?.networkName ?? "";
      if (parseNadName(name) === undefined) return [];
      try {
        if (await hasNad(deps.store, name, namespace)) return [];
      } catch (error) {
        deps.log.warn("cannot look for a network", { network: name, err: messageOf(error) });
        return [];
      }
      const full = networkNameOf(network, namespace) ?? name;
      return [
        `network "${network.name}": NetworkAttachmentDefinition "${full}" does not exist yet; the interface waits for it`,
      ];
    }),
  );
  return warnings.flat();
}
