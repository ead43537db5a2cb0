// SPDX-License-Identifier: Apache-2.0
// The public door of cni.
export { createCni, type CniDeps, type CniTimeouts } from "./cni.ts";
export {
  hasCapability,
  parseNetworkConfig,
  withCniArgs,
  type ParsedNetworkConfig,
} from "./config.ts";
export { createJournal, type Journal, type JournalRow } from "./journal.ts";
export { createResultCache, type ResultCache } from "./result-cache.ts";
export { createNodeRuntimeSandboxes } from "./sandboxes.ts";
export { networkStatusesOf, networkStatusOf } from "./status.ts";
