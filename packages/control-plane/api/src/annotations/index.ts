// SPDX-License-Identifier: Apache-2.0
export {
  parseAttachmentErrors,
  printAttachmentErrors,
  type AttachmentError,
  type AttachmentErrors,
  parseCniGateways,
  printCniGateways,
  type CniGateways,
  parseVhostUserInfo,
  type VhostUserInfo,
  parseNetworkStatus,
  printNetworkStatus,
  sanitizeNetworkStatus,
  type NetworkStatus,
} from "./network-status.ts";
export {
  parsePreferredIps,
  parseRetainedAddresses,
  printRetainedAddresses,
  normalizeAddresses,
  type RetainedAddresses,
  parseRetainedMacs,
  type RetainedMac,
  parsePcieTopology,
  printPcieTopology,
} from "./restart-state.ts";
export {
  findGateways,
  validateNetworkSelection,
  isReadableSelection,
  parseNetworks,
  printNetworks,
  type NetworksAnnotation,
  type NetworkSelection,
} from "./networks.ts";
export {
  parseRequestedAddresses,
  validateRequestedAddresses,
  type RequestedAddresses,
} from "./requested-addresses.ts";
export { parseKubeVirtPci, validateKubeVirtPci } from "./kubevirt-pci.ts";
export {
  validateHookSidecars,
  parseHookSidecars,
  type HookSidecarRequest,
} from "./hook-sidecars.ts";
export { NETWORKS_MAX } from "../limits.ts";
