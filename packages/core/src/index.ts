// SPDX-License-Identifier: Apache-2.0
// The public door of core.
export { covers, isEqual } from "./equal.ts";
export { AppError, isAppError, messageOf, retryRuleOf, type Details } from "./errors/app-error.ts";
export { CATALOGUE, type ErrorCode } from "./errors/catalogue.ts";
export type { ErrorEntry, ErrorOwner, RetryRule } from "./errors/entry.ts";
export { collectIfaceFacts, type IfaceSources, type KernelLink } from "./iface/collect.ts";
export { guestNamesByMac, nextAskInMs, type GuestNic } from "./iface/guest-names.ts";
export { NO_LINKS, type DeviceFacts, type IfaceFacts, type LinkFacts } from "./iface/facts.ts";
export {
  isOwnPodInterfaceName,
  aliasOf,
  DEFAULT_POD_INTERFACE,
  namesOf,
  podInterfaceNameOf,
  type IfaceNames,
  type Sha256Hex,
} from "./iface/names.ts";
export {
  findMacTwins,
  macFor,
  macOf,
  withMacs,
  type MacOwner,
  type MacSources,
  type MacTwin,
  type RandomBytes,
} from "./iface/mac.ts";
export { ifacesWithoutPort, type NoPort } from "./pcie/ports.ts";
export { isWanted, kindOfPhase, letsGo, phaseOf } from "./iface/phase.ts";
export {
  findByName,
  ifacesOf,
  networkNameOf,
  networksOf,
  withNics,
  nicsOf,
  type Nics,
} from "./spec/nics.ts";
export { pointerToken, statusPatch, versionTest } from "./patch.ts";
export { planAddIface, type AddIfaceFacts } from "./plan/request/add-iface.ts";
export {
  planAttachmentActions,
  type AttachmentAction,
  type AttachmentFacts,
  type ForeignAttachment,
  type OwnedAttachment,
  type WantedAttachment,
} from "./plan/pod/attachment-actions.ts";
export {
  planAttachments,
  type AttachmentErrors,
  type PodNetworkFacts,
} from "./status/attachments.ts";
export { findObstacle, newObstacle, type Obstacle } from "./status/obstacle.ts";
export { domainNameOf, machineUuidOf } from "./plan/node/domain-name.ts";
export { sayProblems, vmiStartProblems, vmStartProblems } from "./plan/vm/start-problems.ts";
export {
  isLauncherOf,
  launcherPodName,
  launcherPodOf,
  type LauncherSettings,
} from "./plan/pod/launcher-pod.ts";
export {
  parseAddIface,
  parseRemoveIface,
  type AddIfaceRequest,
  type RemoveIfaceRequest,
} from "./plan/request/nic-body.ts";
export { isOver, targetProblem, type NicTarget } from "./plan/request/target.ts";
export { toRefusal, type NicPlan, type Parsed, type Refusal } from "./plan/request/outcome.ts";
export {
  DETACH_AGAIN_MS,
  planNodeVm,
  type DomainSnapshot,
  type NodeAction,
  type NodeVmFacts,
  type WaitReason,
  type WiringPlan,
} from "./plan/node/node-vm.ts";
export { planRemoveIface, type RemoveIfaceFacts } from "./plan/request/remove-iface.ts";
export { nicsPatch, type NicsPlace } from "./spec/nics-patch.ts";
export { isOwnedBy, nextLookMs, planVm, vmiOf, type VmAction, type VmFacts } from "./plan/vm/vm.ts";
export {
  hasVm,
  planVmi,
  podNetworkElements,
  type VmiAction,
  type VmiFacts,
} from "./plan/vm/vmi.ts";
export { withPlug, type NicsChange } from "./plan/vm/nics.ts";
export {
  guestHindranceField,
  guestHindranceOf,
  hindranceOfFailure,
  hindranceOfWait,
  requestsReported,
  type Hindrance,
} from "./status/hindrance.ts";
export { isDomainBusy, leastPauseMs } from "./status/libvirt-reasons.ts";
export { nodeVmStatus, type NodeVmStatus } from "./status/node-vm.ts";
export { unreachableIfaces } from "./status/unreachable.ts";
export { sayError, type StepFailure, type StepKind } from "./status/step-failure.ts";
export { vmStatus, type NewVmStatus } from "./status/vm.ts";
export { ownVmiStatus, type OwnVmiStatus } from "./status/vmi.ts";
