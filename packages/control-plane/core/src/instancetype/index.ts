// SPDX-License-Identifier: Apache-2.0
export type { Expansion } from "./expand.ts";
export { usesInstancetype, collectInstancetypeFacts, type RefsPlan } from "./facts.ts";
export { inferInstancetypes, type InferredVm } from "./infer.ts";
export {
  findDefaultKind,
  hasMatcher,
  validateMatchers,
  findMatcher,
  type MatcherRole,
  MATCHER_ROLES,
  findMatchedType,
  findUsedRevision,
} from "./matchers.ts";
export { expandWith, readInstancetypes } from "./read-instancetypes.ts";
