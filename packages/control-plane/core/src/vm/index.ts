// SPDX-License-Identifier: Apache-2.0
export { travellingDisks } from "./domain/disks.ts";
export { domainNameOf, machineUuidOf, planDomain } from "./domain/domain.ts";
export {
  type DomainSnapshot,
  type Drift,
  driftIn,
  type NodeAction,
  type NodeVmFacts,
  planNodeVm,
} from "./node/node-vm.ts";
export { hasImageVolume, hasLostImage } from "./pod/image-files.ts";
export { networkNamesOf } from "./pod/pod-networks.ts";
export { seenLauncher } from "./pod/trimmed-launcher.ts";
export {
  FILL_MESSAGE_ANNOTATION,
  FILL_PHASE_ANNOTATION,
  FILL_STATE_ANNOTATION,
  FILLED,
  type FillOrder,
  readDataVolume,
} from "./spec/data-volume.ts";
export { claimModeOf, claimNamesOf } from "./spec/disk-files.ts";
export { labelValueOf } from "./spec/guest-names.ts";
export { vmStartProblems } from "./start-problems.ts";
export { dataVolumesOf, waitsForBinding } from "./storage.ts";
export {
  isLeavingName,
  isOwnedBy,
  nextLookMs,
  ownerVmOf,
  planVm,
  type VmAction,
  type VmFacts,
  vmiOf,
} from "./vm.ts";
export { hasVm, planImageQuestion, planVmi, type VmiAction, type VmiFacts } from "./vmi.ts";
