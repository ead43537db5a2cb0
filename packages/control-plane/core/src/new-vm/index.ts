// SPDX-License-Identifier: Apache-2.0
export {
  CLOUD_CONFIG_HEADER,
  KEYS_FIELD,
  makeNetwork,
  makePassword,
  makeUserData,
  printCloudConfig,
  PUBLIC_KEY,
} from "./cloud-init.ts";
export {
  createVmObjects,
  findNewVmProblems,
  ifaceNames,
  listVmObjects,
  ROOT,
  withOwner,
  type NewSecret,
  type NewVm,
  type NewVmProblem,
  type NewVolume,
  type VmObjects,
} from "./objects.ts";
