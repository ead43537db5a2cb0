// SPDX-License-Identifier: Apache-2.0
// May somebody use a network of another namespace? Whoever may read its definition.
import { NETWORK_ATTACHMENT_DEFINITIONS, parseNadName } from "@patchbay/api";
import type { User } from "../callers/user.ts";
import type { Deps } from "../deps.ts";

const { group, resource } = NETWORK_ATTACHMENT_DEFINITIONS;

/**
 * Why the user may not use the network, as a sentence. Undefined where they may, and for a network of the VM's own
 * namespace, which whoever may change the VM may use.
 * @throws AppError with what the API server's answer is, when it cannot be asked
 */
export async function foreignNetworkProblem(
  deps: Pick<Deps, "mayReadNetwork">,
  user: User,
  asked: { readonly networkName: string; readonly namespace: string },
): Promise<string | undefined> {
  const nad = parseNadName(asked.networkName);
  if (nad?.namespace === undefined || nad.namespace === asked.namespace) return undefined;
  const { namespace, name } = nad;
  if (await deps.mayReadNetwork(user, { namespace, name })) return undefined;
  return `network ${namespace}/${name} is of another namespace: User "${user.name}" cannot get resource "${resource}" in API group "${group}" in the namespace "${namespace}"`;
}
