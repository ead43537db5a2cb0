// SPDX-License-Identifier: Apache-2.0
export { LINKS_RESTLESS, waitingForHooks } from "./messages.ts";
export { isFaultOfDefinition, reasonOf, sayWithAdvice } from "./of-error.ts";
export { eventTypeOf, helperOn, nextOn, type ReasonEntry, REASONS } from "./table.ts";
