// SPDX-License-Identifier: Apache-2.0
export { planAddIface } from "./add-iface.ts";
export { parseMigrateBody, planMigrate } from "./migrate.ts";
export { parseAddIface, parseRemoveIface } from "./nic-body.ts";
export { readMembers, type NicPlan, type Parsed, type Refusal } from "./refusal.ts";
export { planRemoveIface } from "./remove-iface.ts";
export {
  parseRestartBody,
  parseStartBody,
  parseStopBody,
  planRestart,
  planStart,
  planStop,
  type RunStateFacts,
  type RunStateOptions,
  type RunStatePlan,
} from "./run-state.ts";
export {
  fixedNetworkCauses,
  pluggedBindingCauses,
  refuseVmiChange,
  unpluggableCauses,
} from "./spec-edits.ts";
export { isOver, type NicTarget, targetProblem } from "./target.ts";
