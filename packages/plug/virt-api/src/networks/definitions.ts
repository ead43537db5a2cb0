// SPDX-License-Identifier: Apache-2.0
// Is there a definition of a network of that name?
import { NETWORK_ATTACHMENT_DEFINITIONS, parseNadName } from "@patchbay/api";
import type { Reader } from "@patchbay/kube";

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
