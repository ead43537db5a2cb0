// SPDX-License-Identifier: Apache-2.0
// Looks up definitions of networks by name.
import { NETWORK_ATTACHMENT_DEFINITIONS, parseNadName } from "@patchbay/api";
import { nearestName } from "@patchbay/core";
import type { Reader } from "@patchbay/kube";
import type { Deps } from "../deps.ts";

/** Whether the definition is there; a name that cannot be one names none. */
export async function hasNad(
  reader: Reader,
  networkName: string,
  namespace: string,
): Promise<boolean> {
  const nad = parseNadName(networkName);
  if (nad === undefined) return false;
  const key = { namespace: nad.namespace ?? namespace, name: nad.name };
  return (await reader.find(NETWORK_ATTACHMENT_DEFINITIONS, key)) !== undefined;
}

/**
 * The name in the namespace of the VM that was probably meant. Names of other namespaces are not given away: the caller may
 * read none of them.
 */
export function nearestNetwork(
  { listNetworkNames }: Pick<Deps, "listNetworkNames">,
  networkName: string,
  namespace: string,
): string | undefined {
  const nad = parseNadName(networkName);
  const isOwn = nad !== undefined && (nad.namespace ?? namespace) === namespace;
  return isOwn ? nearestName(nad.name, listNetworkNames(namespace)) : undefined;
}
