// SPDX-License-Identifier: Apache-2.0
export { createCni, wrapCni } from "./plugins.ts";
export {
  findDeviceId,
  hasCapability,
  parseNetworkConfig,
  withCniArgs,
  withDevice,
  buildDefaultNetworkStatuses,
  buildNetworkStatuses,
  findNetworkStatus,
  listResultGateways,
  printResult,
} from "./formats.ts";
export { createBridgeRecorder, listCreatedBridges, recordBridges } from "./created-bridges.ts";
export { createDeviceInfoFiles, type DeviceInfoFiles } from "./device-info-files.ts";
export {
  createDefinitionFiles,
  type DefinitionFiles,
  type DefinitionSearch,
} from "./definition-files.ts";
export { createJournal, type Journal, type JournalDevice, type JournalRow } from "./journal.ts";
export { createResultCache, type RememberedAttachment, type ResultCache } from "./result-cache.ts";
export {
  type CalledPod,
  CNI_CODES,
  parsePluginCall,
  PLUGIN_PROGRAM,
  type PluginCall,
  toPluginFailure,
} from "./as-plugin.ts";
