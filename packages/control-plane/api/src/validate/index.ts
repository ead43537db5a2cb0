// SPDX-License-Identifier: Apache-2.0
export {
  effectiveVmiSpec,
  listUnsupportedVmFields,
  listUnsupportedVmiFields,
  findUnbuiltField,
  listVmFields,
  type FieldProblem,
  type UnsupportedFields,
  findMistypedFields,
  listLimitCauses,
  findMalformedQuantities,
} from "./fields.ts";
export type { SchemaField } from "../fields/walk.ts";
export {
  buildAutoNic,
  declaresNoNics,
  findAutoNic,
  isSecondary,
  withDefaultBinding,
} from "./defaults.ts";
export {
  validateVmChange,
  validateVmiChange,
  validateGuest,
  validateVmiSpec,
  validateVmiNetworkChange,
} from "./spec.ts";
export { validateVmName } from "./guest/names.ts";
export { validateInstancetype, validatePreference, preferenceWarnings } from "./instancetypes.ts";
export { listNewClaimFields } from "./claimed-networks.ts";
export { listGatedCauses } from "./iface-traffic.ts";
export { ifacePath } from "./rule.ts";
