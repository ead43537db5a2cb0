// SPDX-License-Identifier: Apache-2.0
// The door of claims: what the node's composition and the binder take.
export type { ClaimDeps, ClaimMachine, StorageCaches } from "./deps.ts";
export { keepClaims } from "./keep-claims.ts";
export { claimNamesOf, podClaimsOf, type ClaimLookup } from "./plan/pod-claims.ts";
export { createClaimGrowth } from "./use/claim-growth.ts";
export { createClaimUses, type ClaimUses } from "./use/claim-uses.ts";
export { SELECTED_NODE } from "./words.ts";
