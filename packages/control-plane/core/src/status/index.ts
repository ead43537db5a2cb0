// SPDX-License-Identifier: Apache-2.0
export {
  guestBlockedField,
  guestBlockedReason,
  type BlockedReason,
  blockedReasonOfFailure,
  blockedReasonOfWait,
  reportedUnplugRequests,
} from "./blocked-reason.ts";
export { AGENT_CONNECTED } from "./conditions.ts";
export { installationStatus } from "./installation.ts";
export { LIVE_MIGRATABLE } from "./live-migratable.ts";
export {
  isNodePhase,
  mayNodeReport,
  NODE_VM_CONDITIONS,
  NODE_VM_FIELDS,
  buildNodeVmStatus,
  type NodeVmStatus,
} from "./node-vm.ts";
export { pointerToken, statusPatch, versionTest } from "./patch.ts";
export { describeError, type StepFailure, type StepKind } from "./step-failure.ts";
export { findSyncError, newSyncError } from "./sync-error.ts";
export { canDeferVmStatus, type NewVmStatus, buildVmStatus } from "./vm.ts";
export { buildVmiStatus, type ControllerVmiStatus } from "./vmi.ts";
