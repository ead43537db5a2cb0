// SPDX-License-Identifier: Apache-2.0
export type { Expansion } from "./expand.ts";
export { usesParts, collectPartsFacts, type RefsPlan } from "./facts.ts";
export { inferParts, type InferredVm } from "./infer.ts";
export {
  findDefaultKind,
  hasParts,
  validateMatchers,
  findMatcher,
  type Part,
  PARTS,
  findPartType,
  findUsedRevision,
} from "./parts.ts";
export { expandWith, readParts } from "./read-parts.ts";
