// SPDX-License-Identifier: Apache-2.0
export type { MetricFamily } from "./family.ts";
export {
  ifacePhaseFamily,
  oldestPendingFamily,
  type PendingIface,
  pendingIfaces,
  findEndedPhases,
  newReasons,
} from "./pending-ifaces.ts";
export { createPhaseRecorder, observeMigrationPhase, observeVmiPhase } from "./phases.ts";
export { queueFamilies, type QueueStats } from "./queues.ts";
export {
  type DirectionCounts,
  type LinkCounts,
  nicCounts,
  trafficFamilies,
  type VmTraffic,
} from "./traffic.ts";
export {
  migrationFamilies,
  outgoingMigrationFamilies,
  vmiAddressFamily,
  vmiInfoFamily,
  vmiVnicFamily,
  vmVnicFamily,
} from "./vmis.ts";
