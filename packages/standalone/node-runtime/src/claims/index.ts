// SPDX-License-Identifier: Apache-2.0
export type { ClaimDeps, ClaimMachine, StorageCaches } from "./deps.ts";
export { runClaimController } from "./reconcile-claims.ts";
export { listClaimNames, planPodClaims, type ClaimLookup } from "./plan/pod-claims.ts";
export { createClaimGrowth } from "./claim-growth.ts";
export { createClaimUses, type ClaimUses } from "./claim-uses.ts";
export { SELECTED_NODE_ANNOTATION } from "./names.ts";
