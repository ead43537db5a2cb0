// SPDX-License-Identifier: Apache-2.0
export type { MigrationAction } from "./control/actions.ts";
export { nextDeadlineMs } from "./control/decision.ts";
export { type MigrationFacts, type MigrationSettings, stateIn } from "./control/facts.ts";
export { migrationNotes, migrationStatus } from "./control/migration-status.ts";
export { nextCourse, planMigrations } from "./control/plan.ts";
export { currentMigration, hasMigrationBegun, inTurn, mayBegin } from "./control/queue.ts";
export { asksForNamespace, migrationSettingsOf } from "./control/settings.ts";
export { cpuNeedOf, unfitReason } from "./control/target-nodes.ts";
export { toldLabels } from "./control/vmi-status.ts";
export { type EvacuationStep, planEvacuation } from "./evacuation.ts";
export {
  type ArrivalFacts,
  arrivalFaults,
  type ArrivalStep,
  type ArrivedNic,
  GUEST_HELD,
  planArrival,
} from "./incoming.ts";
export { DISRUPTED_MS, downtimeAt, isToBeDisrupted, moveLimitsOf } from "./limits.ts";
export {
  announcedNics,
  arrivedWirings,
  broughtAlong,
  expectedNics,
  leftWirings,
  staysPaused,
} from "./migrated-nics.ts";
export { type DepartureFacts, type DepartureStep, planDeparture } from "./outgoing.ts";
export {
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
export { evictionAnswer, inFlightProblem, launcherNamesOf, migrationProblem } from "./requests.ts";
