// SPDX-License-Identifier: Apache-2.0
// The public door of cni.
export { createCni } from "./plugin-chain.ts";
export {
  deviceIn,
  hasCapability,
  parseNetworkConfig,
  withCniArgs,
  withDevice,
} from "./network-config.ts";
export { wrapCni } from "./wrap-cni.ts";
export { createBridgeRecorder, listCreatedBridges, recordBridges } from "./created-bridges.ts";
export { createDeviceInfoFiles, type DeviceInfoFiles } from "./device-info-files.ts";
export {
  createDefinitionFiles,
  type DefinitionFiles,
  type DefinitionSearch,
} from "./definition-files.ts";
export { createJournal, type Journal, type JournalDevice, type JournalRow } from "./journal.ts";
export { createResultCache, type RememberedAttachment, type ResultCache } from "./result-cache.ts";
export { defaultNetworkStatusesOf, networkStatusesOf, networkStatusOf } from "./network-status.ts";
export { CNI_CODES, parsePluginCall, type CalledPod, type PluginCall } from "./as-plugin/call.ts";
export { PLUGIN_PROGRAM } from "./as-plugin/program.ts";
export { pluginFailureOf } from "./as-plugin/failure.ts";
export { printResult } from "./as-plugin/print-result.ts";
