// SPDX-License-Identifier: Apache-2.0
export type { MetricFamily } from "./family.ts";
export {
  ifacePhaseFamily,
  oldestPendingFamily,
  type PendingIface,
  pendingIfaces,
  phasesEnded,
  reasonsTold,
} from "./pending-ifaces.ts";
export { queueFamilies, type QueueFigures } from "./queues.ts";
export {
  type DirectionCounts,
  type LinkCounts,
  nicCounts,
  trafficFamilies,
  type VmTraffic,
} from "./traffic.ts";
export {
  migrationFamilies,
  moveFamilies,
  vmiAddressFamily,
  vmiInfoFamily,
  vmiVnicFamily,
  vmVnicFamily,
} from "./vmis.ts";
