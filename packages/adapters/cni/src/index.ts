// SPDX-License-Identifier: Apache-2.0
// The public door of cni.
export { createCni } from "./plugin-chain.ts";
export { hasCapability, parseNetworkConfig, withCniArgs } from "./network-config.ts";
export {
  createDefinitionFiles,
  type DefinitionFiles,
  type DefinitionSearch,
} from "./definition-files.ts";
export { createJournal, type Journal, type JournalRow } from "./journal.ts";
export { createResultCache, type RememberedAttachment, type ResultCache } from "./result-cache.ts";
export { networkStatusesOf, networkStatusOf } from "./network-status.ts";
