// SPDX-License-Identifier: Apache-2.0
export { findNewAddressChange } from "./addresses/retained-addresses.ts";
export {
  type AnsweredNeighbor,
  findIpv6Gateway,
  isIpv6LinkLocal,
  type NicAddresses,
  type NicNeighbor,
  type NicRoute,
  type RememberedAddresses,
} from "./addresses/lease.ts";
export { parseResolver } from "./addresses/resolver.ts";
export { findUnusedDefaultRoute, type ServedNic } from "./addresses/served-nic.ts";
export {
  type AgentMode,
  type AttachmentAction,
  type AttachmentFacts,
  type ForeignAttachment,
  listInterfaces,
  mergeNetworkStatus,
  type OwnedAttachment,
  planAttachmentActions,
  type ReportedAttachment,
} from "./attachments/attachment-actions.ts";
export {
  type CreatedBridge,
  findAbsentBridges,
  findCreatedBridges,
  planBridgeRemoval,
} from "./attachments/created-bridges.ts";
export {
  findEarlierRouteRequest,
  type RouteClaim,
  findConflictingRoutes,
  listRoutesToRecord,
  listRoutesToRestore,
} from "./attachments/default-routes.ts";
export {
  chooseDevice,
  type DeviceRequest,
  type UsedDevice,
  mayHaveDevice,
} from "./attachments/devices.ts";
export {
  isHostDeviceFailure,
  isSameNodeNic,
  listMovedNics,
  movesNodeNic,
} from "./attachments/node-nics.ts";
export {
  DEFAULT_POLICY,
  listLeaseDirectories,
  listNamedBridges,
  namesBridge,
  choosePolicy,
  findPolicyProblems,
  describePolicySetting,
  listRuntimeMembers,
  withoutRuntimeMembers,
  type TenantPolicy,
} from "./attachments/tenant-policy.ts";
export {
  type AddressContext,
  findAddressProblems,
  findAssignedProblems,
  findNodeAddressMember,
  findPortProblems,
  findRequestedProblems,
  type NodeSubnet,
} from "./attachments/node-addresses.ts";
export { findReportWaitMs, listResourceClaimNames, readClaimedNics } from "./claimed-nics.ts";
export type { WantedAttachment } from "./attachments/wanted-attachments.ts";
export type {
  BridgeWiring,
  ForwardedPorts,
  RemovableWiring,
  MasqueradeWiring,
  NatSubnet,
  PodReplies,
  PodWiring,
  ObservedWiring,
  SendGuard,
  TapWiring,
  RateLimit,
  TokenBucket,
} from "./bindings/pod-wiring.ts";
export { findBindingProblems } from "./bindings/resolve-binding.ts";
export { collectIfaceFacts, type IfaceSources, mustReleaseDevice } from "./phase.ts";
export { findBypassedMesh, isMeshed } from "./bindings/service-mesh.ts";
export { type DefinitionNeeds, collectNeeds, findSharedLink } from "./definition/needs.ts";
export {
  hasStaleProblems,
  type NodeFinding,
  listOtherNodes,
  buildProblemsPatch,
  summarizeProblems,
} from "./definition/reported-problems.ts";
export { type DefinitionFacts, findDefinitionProblems } from "./definition/suitability.ts";
export { type DeviceTaps, updateDeviceTaps, buildLinkFilter } from "./links/link-facts.ts";
export {
  DATAPLANE_GROUP_FLAG,
  checkDataplaneGroup,
  type ObservedSocket,
  type VhostSocket,
  listVhostSockets,
} from "./links/vhost-socket.ts";
export {
  listCurrentWirings,
  listExpectedWirings,
  findOrphanedWirings,
  buildWiring,
  withWired,
  type UnplugRequest,
} from "./node-plan.ts";
export {
  findMacChanges,
  findMacConflicts,
  findOwnMacConflicts,
  findPodNetworkMac,
  MAC_CHANGED,
  needsRandomMac,
  listMacs,
  type MacOwner,
  type MacConflict,
  describeMacOwner,
  type PodNetworkPolicy,
  type RandomBytes,
  type FindSegment,
  withMacs,
  withRecordedMacs,
} from "./mac.ts";
export { buildLimiterName, toAlias, isOwnPodInterfaceName, parseAlias } from "./names.ts";
export { toNicsPatch, type NicsChange, withPlug } from "./spec-plan.ts";
export {
  findByName,
  ifacesOf,
  networkNameOf,
  networksOf,
  type Nics,
  nicsOf,
  locateNics,
  withNics,
} from "./nics.ts";
export { findIfacesWithoutPort } from "./pcie/ports.ts";
export { findPciAddressCauses } from "./pcie/topology.ts";
export { isTransientChange } from "../status/node-vm.ts";
export { findRenamedNic } from "./pod-nic.ts";
export { type IfaceStage, describeTimings, listStages } from "./status/phase-timings.ts";
export { buildUnreachableIfaces } from "./status/unreachable.ts";
export { listDefinitionChanges } from "./definition/changes.ts";
