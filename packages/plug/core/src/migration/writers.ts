// SPDX-License-Identifier: Apache-2.0
// Which members of `status.migrationState` are a node's word? All others are virt-controller's.
import type { MigrationState } from "@patchbay/api";
import type { NodeRole } from "./owner.ts";

/** By what the node is to a VMI whose migration is open: the owner is the source until the guest has been handed over. */
export const NODE_MIGRATION_FIELDS = {
  owner: [
    "startTimestamp",
    "mode",
    "failed",
    "failureReason",
    "abortStatus",
    "progress",
    "sourceNodeDomainLeft",
  ],
  target: [
    "targetNodeAddress",
    "targetDirectMigrationNodePorts",
    "targetNodeDomainDetected",
    "targetNodeDomainFaults",
    "targetNodeDomainReadyTimestamp",
  ],
} as const satisfies Readonly<Record<NodeRole, readonly (keyof MigrationState)[]>>;
