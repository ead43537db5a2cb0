// SPDX-License-Identifier: Apache-2.0
export { disksToCopy } from "./domain/disks.ts";
export { domainNameOf, buildMachineUuid, planDomain } from "./domain/domain.ts";
export {
  type DomainSnapshot,
  type Drift,
  findDrift,
  type NodeAction,
  type NodeVmFacts,
  planNodeVm,
} from "./node/node-vm.ts";
export {
  findIpamClaimOwner,
  findUnusedAddresses,
  listIpamClaimNames,
  planIpamClaims,
  type IpamClaimAction,
  type IpamClaimNames,
} from "./ipam-claims.ts";
export {
  findPodNetwork,
  findPrimaryNetwork,
  isPrimaryNetwork,
  withoutPrimaryRequest,
} from "./primary-network.ts";
export { hasImageVolume, hasMissingImage } from "./pod/image-files.ts";
export { listNetworkNames } from "./pod/pod-networks.ts";
export {
  isIncomplete,
  trimAnnotations,
  trimLauncher,
  trimStoredVm,
  trimStoredVmi,
  withTrimmedAnnotations,
} from "./trimmed-objects.ts";
export {
  FILL_MESSAGE_ANNOTATION,
  FILL_PHASE_ANNOTATION,
  FILL_STATE_ANNOTATION,
  FILLED,
  type FillOrder,
  readDataVolume,
} from "./spec/data-volume.ts";
export { readVolumeMode, listClaimNames } from "./spec/disk-files.ts";
export { toLabelValue } from "./spec/guest-names.ts";
export { vmStartProblems } from "./start-problems.ts";
export { buildDataVolumes, waitsForBinding } from "./storage.ts";
export {
  willReleaseName,
  isOwnedBy,
  nextReconcileMs,
  findOwnerVm,
  planVm,
  type VmAction,
  type VmFacts,
  vmiOf,
} from "./vm.ts";
export {
  hasVm,
  buildImageVolumeTestPod,
  planVmi,
  readPodNetworkElements,
  type VmiAction,
  type VmiFacts,
} from "./vmi.ts";
