// SPDX-License-Identifier: Apache-2.0
export type { Expansion } from "./expand.ts";
export { concernsParts, partsFactsOf, type RefsPlan } from "./facts.ts";
export { inferParts, type InferredVm } from "./infer.ts";
export {
  defaultKindOf,
  hasParts,
  matcherCauses,
  matcherOf,
  type Part,
  PARTS,
  partTypeOf,
  usedRevisionOf,
} from "./parts.ts";
export { expandedBy, readParts } from "./read-parts.ts";
