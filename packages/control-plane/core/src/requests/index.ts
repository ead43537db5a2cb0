// SPDX-License-Identifier: Apache-2.0
export {
  planAddIface,
  parseAddIface,
  parseRemoveIface,
  planRemoveIface,
  isEndedOrDeleting,
  type NicTarget,
  findTargetProblem,
} from "./ifaces.ts";
export { parseMigrateBody, planMigrate } from "./migrate.ts";
export { readMembers, type NicPlan, type Parsed, type Refusal } from "./refusal.ts";
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
  listLiveNetworkChangeCauses,
  listNewIfaceBindingCauses,
  refuseVmiChange,
  listNewIfaceHookCauses,
} from "./spec-edits.ts";
