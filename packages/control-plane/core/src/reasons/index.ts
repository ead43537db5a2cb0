// SPDX-License-Identifier: Apache-2.0
export { LINKS_KEEP_CHANGING, waitingForHooks } from "./messages.ts";
export { DEFINITION_WARNINGS, isDefinitionFault, reasonOf, messageWithAdvice } from "./of-error.ts";
export {
  findEventType,
  findReasonOwner,
  nextStepFor,
  type Reason,
  type ReasonEntry,
  REASONS,
} from "./table.ts";
