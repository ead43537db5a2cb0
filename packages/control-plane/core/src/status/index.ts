// SPDX-License-Identifier: Apache-2.0
export {
  guestHindranceField,
  guestHindranceOf,
  type Hindrance,
  hindranceOfFailure,
  hindranceOfWait,
  requestsReported,
} from "./blocked-reason.ts";
export { AGENT_CONNECTED } from "./conditions.ts";
export { installationStatus } from "./installation.ts";
export { LIVE_MIGRATABLE } from "./live-migratable.ts";
export {
  isNodesPhase,
  isNodesWord,
  NODE_VM_CONDITIONS,
  NODE_VM_FIELDS,
  nodeVmStatus,
  type NodeVmStatus,
} from "./node-vm.ts";
export { pointerToken, statusPatch, versionTest } from "./patch.ts";
export { sayError, type StepFailure, type StepKind } from "./step-failure.ts";
export { findSyncError, newSyncError } from "./sync-error.ts";
export { canVmStatusWait, type NewVmStatus, vmStatus } from "./vm.ts";
export { ownVmiStatus, type OwnVmiStatus } from "./vmi.ts";
