// SPDX-License-Identifier: Apache-2.0
export type { MigrationAction } from "./control/actions.ts";
export { nextDeadlineMs } from "./control/decision.ts";
export {
  type MigrationFacts,
  type MigrationSettings,
  findMigrationState,
} from "./control/facts.ts";
export { listMigrationEvents, buildMigrationStatus } from "./control/migration-status.ts";
export { decideNext, planMigrations } from "./control/plan.ts";
export { currentMigration, hasMigrationBegun, sortByAge, mayBegin } from "./control/queue.ts";
export { usesNamespaceLabels, readMigrationSettings } from "./control/settings.ts";
export { findCpuRequirement, noTargetReason } from "./control/target-nodes.ts";
export { labelChanges } from "./control/vmi-status.ts";
export { type EvacuationStep, planEvacuation } from "./evacuation.ts";
export {
  type IncomingFacts,
  findIncomingFaults,
  type IncomingStep,
  type IncomingNic,
  GUEST_PAUSED_ON_TARGET,
  planIncoming,
} from "./incoming.ts";
export { UNLIMITED_DOWNTIME_MS, downtimeAt, mayDisruptNow, readMigrationLimits } from "./limits.ts";
export {
  listAnnouncedNics,
  listIncomingWirings,
  listMigratingIfaces,
  listExpectedNics,
  listOutgoingWirings,
  wasPausedAtSource,
} from "./migrated-nics.ts";
export { type OutgoingFacts, type OutgoingStep, planOutgoing } from "./outgoing.ts";
export {
  hasLauncherLabel,
  isControlledBy,
  isLauncherOf,
  launcherOn,
  launcherPodName,
  migrationIn,
  NODE_MIGRATION_FIELDS,
  type NodeRole,
  openMigration,
  ownerPodName,
  targetView,
} from "./owner.ts";
export {
  respondToEviction,
  inFlightProblem,
  listLauncherNames,
  migrationProblem,
} from "./requests.ts";
