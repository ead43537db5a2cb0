// SPDX-License-Identifier: Apache-2.0
// What is kept for users and their rights: default roles, accounts of namespaces, tokens in secrets.
import { aggregateClusterRoles, startClusterRoleAggregation } from "./cluster-role-aggregation.ts";
import { keepDefaultRoles } from "./default-roles.ts";
import { keepNamespaceContents, startNamespaceContents } from "../namespace/contents.ts";
import { type TokenSecretsDeps, startTokenSecrets } from "./token-secrets.ts";

/** Brings everything up to date before the first request. */
export async function prepareAccess(deps: TokenSecretsDeps): Promise<void> {
  await keepDefaultRoles(deps);
  await aggregateClusterRoles(deps);
  await keepNamespaceContents(deps);
}

/** Starts the controllers; they follow the store until `stop` is aborted. */
export function startAccessControllers(deps: TokenSecretsDeps, stop: AbortSignal): void {
  startClusterRoleAggregation(deps, stop);
  startNamespaceContents(deps, stop);
  startTokenSecrets(deps, stop);
}
