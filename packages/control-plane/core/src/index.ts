// SPDX-License-Identifier: Apache-2.0
// The public door of core: what other packages use, from the lowest folder to the highest.
export { dropAbsent } from "./drop-absent.ts";
export { covers, isEqual } from "./equal.ts";
export { pointerToken, statusPatch, versionTest } from "./patch.ts";
export {
  AppError,
  fillIn,
  isAppError,
  messageOf,
  retryRuleOf,
  type Details,
  isDomainBusy,
  leastPauseMs,
} from "./errors/app-error.ts";
export { CATALOGUE, type ErrorCode } from "./errors/catalogue.ts";
export type { ErrorEntry } from "./errors/entry.ts";
export { bindingProblems } from "./bindings/resolve-binding.ts";
export type {
  BridgeWiring,
  LeftWiring,
  ForwardedPorts,
  MasqueradeWiring,
  NatSubnet,
  PodWiring,
  SeenWiring,
  SendGuard,
  TapWiring,
  PodAnswers,
} from "./bindings/pod-wiring.ts";
export {
  hasRun,
  isNodeLost,
  isSchedulable,
  nodeLossOf,
  offeredResources,
  seenNode,
  type NodeLoss,
} from "./node/node-loss.ts";
export { nearestName } from "./nearest-name.ts";
export { claimModeOf, claimNamesOf } from "./spec/disk-files.ts";
export {
  FILL_MESSAGE_ANNOTATION,
  FILL_PHASE_ANNOTATION,
  FILL_STATE_ANNOTATION,
  FILLED,
  readDataVolume,
  type FillOrder,
} from "./spec/data-volume.ts";
export { nicsPatch } from "./spec/nics-patch.ts";
export {
  findByName,
  ifacesOf,
  networkNameOf,
  networksOf,
  nicsOf,
  withNics,
  type Nics,
} from "./spec/nics.ts";
export { isFaultOfDefinition, reasonOf, sayWithAdvice } from "./reasons/of-error.ts";
export { type ReasonEntry, eventTypeOf, helperOn, nextOn, REASONS } from "./reasons/table.ts";
export {
  ipv6GatewayOf,
  isIpv6LinkLocal,
  type NicAddresses,
  type NicRoute,
  type RememberedAddresses,
} from "./addresses/lease.ts";
export { parseResolver } from "./addresses/resolver.ts";
export type { ServedNic } from "./addresses/served-nic.ts";
export { labelValueOf } from "./spec/guest-names.ts";
export { collectIfaceFacts } from "./iface/collect.ts";
export {
  nextAskInMs,
  guestViewOf,
  nextGuestView,
  NO_VIEW,
  type GuestView,
} from "./guest/agent-view.ts";
export { readGuestLinks } from "./guest/links.ts";
export { AGENT_CONNECTED } from "./status/conditions.ts";
export { installationStatus } from "./status/cluster/installation.ts";
export {
  guestAgentInfoOf,
  guestFilesystemsOf,
  guestUsersOf,
  type HeardOfGuest,
  readGuestSystem,
} from "./guest/details.ts";
export {
  GUEST_REQUESTS,
  guestPath,
  HANDLER_CLIENT_NAME,
  HANDLER_SERVER_NAME,
  RELAY_CERTIFICATE,
  parseGuestRequest,
  type GuestRequest,
  DOCTOR,
  doctorPath,
  parseDoctorPath,
  parseDoctorQuery,
  guestStreamPath,
  isGuestStream,
  parseGuestStream,
  PRESERVE_SESSION,
  STREAM_PROTOCOL,
  type GuestStream,
  type StreamRequest,
} from "./guest/requests.ts";
export { askedNetworksOf, seenService, serviceAskOf } from "./services/service-request.ts";
export { trustedNamespacesOf } from "./services/allowed-addresses.ts";
export {
  NETWORK_SLICE_WRITER,
  networkServicePlan,
  seenByServices,
  selectsVmi,
} from "./services/network-service.ts";
export { planSlices, serviceKeyOf, slicesOfParts, type ServicePart } from "./services/slices.ts";
export {
  isExtendedResource,
  networksNotOn,
  seenDefinition,
  type Definitions,
  type NetworkAbsences,
} from "./node/definitions.ts";
export {
  CAPTURE,
  CAPTURE_LIMITS,
  capturePath,
  parseCapturePath,
  parseCaptureQuery,
  printCaptureQuery,
  type CaptureOrder,
  type CaptureRequest,
  WholePackets,
} from "./guest/capture.ts";
export { wayFactsOf, wayQuestionOf, type WaySources } from "./doctor/collect.ts";
export { diagnose } from "./doctor/diagnose.ts";
export type {
  FixedEntry,
  FixedNeighbor,
  ForwardedPing,
  FrameFilter,
  FrameTrace,
  LossCount,
  Place,
  RefusedFrames,
  ProbeName,
  SeenWay,
  WayLink,
  WayLinks,
  WayTarget,
  WiringLack,
} from "./doctor/facts.ts";
export type { DoctorReport, HopName, HopReport, HopState } from "./doctor/report.ts";
export {
  findForwardAddress,
  guestStreamProblem,
  runningProblem,
  guestRequestProblem,
} from "./status/guest/guest-request.ts";
export {
  findMacTwins,
  findOwnMacTwins,
  listMacs,
  macFor,
  withMacs,
  type MacOwner,
  nameMacOwner,
  type MacTwin,
  type RandomBytes,
  type SegmentOf,
} from "./iface/mac.ts";
export { deviceTapsOf, type DeviceTaps, linkFilterOf } from "./iface/links/link-facts.ts";
export {
  DATAPLANE_GROUP_FLAG,
  dataplaneGroupProblem,
  vhostSocketsOf,
  type SeenSocket,
  type VhostSocket,
} from "./iface/links/vhost-socket.ts";
export { orphanedWirings, expectedWirings, withWired, wiringOf } from "./iface/links/wiring.ts";
export {
  driftIn,
  planNodeVm,
  type Drift,
  type DomainSnapshot,
  type NodeAction,
  type NodeVmFacts,
} from "./plan/node/node-vm.ts";
export { LINKS_RESTLESS, waitingForHooks } from "./reasons/messages.ts";
export {
  answeredCloudInit,
  cloudInitDiskOf,
  hookedCloudInitOf,
  type HookedCloudInit,
} from "./plan/node/hooks/cloud-init-data.ts";
export { isoImage } from "./plan/node/hooks/iso-image.ts";
export { refusedChanges } from "./plan/node/hooks/refused-changes.ts";
export {
  hookNameOf,
  subscribersAt,
  subscriptionProblem,
  type Subscriber,
  type Subscription,
} from "./plan/node/hooks/subscriptions.ts";
export { findMovedNic } from "./iface/pod-nic.ts";
export {
  aliasOf,
  isExtraInterfaceName,
  isOwnPodInterfaceName,
  nameOfAlias,
} from "./iface/names.ts";
export type { UnplugRequest } from "./plan/node/nics.ts";
export { letsGo } from "./iface/phase.ts";
export { membersOf, type Parsed, type NicPlan, type Refusal } from "./plan/request/refusal.ts";
export { sharedLinkOf, needsOf, type DefinitionNeeds } from "./definition/needs.ts";
export { ifacesWithoutPort } from "./pcie/ports.ts";
export { pciAddressCauses } from "./pcie/topology.ts";
export { planNodeOffers, type NodeOffer } from "./plan/node/node-devices.ts";
export { travellingDisks } from "./plan/node/guest/disks.ts";
export { planDomain, domainNameOf, machineUuidOf } from "./plan/node/domain.ts";
export {
  planAttachmentActions,
  type AgentMode,
  type AttachmentAction,
  type AttachmentFacts,
  type ForeignAttachment,
  type OwnedAttachment,
} from "./plan/attachments/attachment-actions.ts";
export { problemsOf, type DefinitionFacts } from "./definition/suitability.ts";
export {
  hasStaleProblems,
  otherNodesIn,
  problemsPatch,
  tellProblems,
  type NodeFinding,
} from "./definition/reported-problems.ts";
export {
  DEFAULT_POLICY,
  policyInForce,
  policySettingOf,
  leaseDirectoriesOf,
  namesBridge,
  policyProblems,
  type TenantPolicy,
} from "./plan/attachments/tenant-policy.ts";
export {
  isFromNicMover,
  isSameNodeNic,
  nodeNicNamesOf,
  takesNodeNic,
} from "./plan/attachments/node-nics.ts";
export {
  findAbsentBridges,
  findCreatedBridges,
  planBridgeRemoval,
  type CreatedBridge,
} from "./plan/attachments/created-bridges.ts";
export {
  findRouteRival,
  routesInTheWay,
  routesToRemember,
  routesToRestore,
  type RouteClaim,
} from "./plan/attachments/default-routes.ts";
export {
  chooseDevice,
  mayHaveDevice,
  type DeviceRequest,
  type HeldDevice,
} from "./plan/attachments/devices.ts";
export { type WantedAttachment } from "./plan/attachments/wanted-attachments.ts";
export { hasImageVolume, hasLostImage } from "./plan/pod/image-files.ts";
export {
  isControlledBy,
  isLauncherOf,
  launcherOn,
  launcherPodName,
  migrationIn,
  openMigration,
  ownerPodName,
  targetView,
  type NodeRole,
  NODE_MIGRATION_FIELDS,
} from "./migration/owner.ts";
export {
  arrivalFaults,
  planArrival,
  type ArrivalFacts,
  type ArrivalStep,
  type ArrivedNic,
  GUEST_HELD,
} from "./migration/incoming.ts";
export { planEvacuation, type EvacuationStep } from "./migration/evacuation.ts";
export {
  announcedNics,
  arrivedWirings,
  leftWirings,
  broughtAlong,
  expectedNics,
  staysPaused,
} from "./migration/migrated-nics.ts";
export { planDeparture, type DepartureFacts, type DepartureStep } from "./migration/outgoing.ts";
export { cpuNeedOf, unfitReason } from "./migration/control/target-nodes.ts";
export { DISRUPTED_MS, downtimeAt, isToBeDisrupted, moveLimitsOf } from "./migration/limits.ts";
export type { MigrationAction } from "./migration/control/actions.ts";
export { nextCourse, planMigrations } from "./migration/control/plan.ts";
export {
  currentMigration,
  hasMigrationBegun,
  inTurn,
  mayBegin,
} from "./migration/control/queue.ts";
export { migrationNotes, migrationStatus } from "./migration/control/migration-status.ts";
export { nextDeadlineMs } from "./migration/control/decision.ts";
export { asksForNamespace, migrationSettingsOf } from "./migration/control/settings.ts";
export { stateIn, type MigrationFacts, type MigrationSettings } from "./migration/control/facts.ts";
export { toldLabels } from "./migration/control/vmi-status.ts";
export {
  evictionAnswer,
  inFlightProblem,
  launcherNamesOf,
  migrationProblem,
} from "./migration/requests.ts";
export { networkNamesOf } from "./plan/pod/pod-networks.ts";
export { seenLauncher } from "./plan/pod/trimmed-launcher.ts";
export type { Expansion } from "./instancetype/expand.ts";
export { concernsParts, partsFactsOf, type RefsPlan } from "./instancetype/facts.ts";
export { inferParts, type InferredVm } from "./instancetype/infer.ts";
export {
  matcherCauses,
  defaultKindOf,
  hasParts,
  matcherOf,
  PARTS,
  partTypeOf,
  usedRevisionOf,
  type Part,
} from "./instancetype/parts.ts";
export { expandedBy, readParts } from "./instancetype/read-parts.ts";
export { dataVolumesOf, waitsForBinding } from "./plan/vm/storage.ts";
export { withPlug, type NicsChange } from "./plan/vm/nics.ts";
export { vmStartProblems } from "./plan/vm/start-problems.ts";
export {
  isLeavingName,
  isOwnedBy,
  nextLookMs,
  ownerVmOf,
  planVm,
  vmiOf,
  type VmAction,
  type VmFacts,
} from "./plan/vm/vm.ts";
export { hasVm, planImageQuestion, planVmi, type VmiAction, type VmiFacts } from "./plan/vm/vmi.ts";
export { planAddIface } from "./plan/request/add-iface.ts";
export { parseAddIface, parseRemoveIface } from "./plan/request/nic-body.ts";
export { parseMigrateBody, planMigrate } from "./plan/request/migrate.ts";
export { planRemoveIface } from "./plan/request/remove-iface.ts";
export {
  planRestart,
  planStart,
  planStop,
  parseRestartBody,
  parseStartBody,
  parseStopBody,
  type RunStateFacts,
  type RunStatePlan,
  type RunStateOptions,
} from "./plan/request/run-state.ts";
export { isOver, targetProblem, type NicTarget } from "./plan/request/target.ts";
export {
  fixedNetworkCauses,
  pluggedBindingCauses,
  unpluggableCauses,
  refuseVmiChange,
} from "./plan/request/spec-edits.ts";
export {
  guestHindranceField,
  guestHindranceOf,
  hindranceOfFailure,
  hindranceOfWait,
  requestsReported,
  type Hindrance,
} from "./status/blocked-reason.ts";
export {
  interfacesOf,
  mergeNetworkStatus,
  type ToldAttachment,
} from "./status/ifaces/network-status.ts";
export {
  isNodesPhase,
  isNodesWord,
  NODE_VM_CONDITIONS,
  NODE_VM_FIELDS,
  nodeVmStatus,
  type NodeVmStatus,
} from "./status/node-vm.ts";
export { newAddressChange } from "./addresses/kept-addresses.ts";
export { findSyncError, newSyncError } from "./status/sync-error.ts";
export { endedHistory } from "./status/history/record.ts";
export { historyOf, seeNics, withHindrances, type SeenNics } from "./status/history/nic-history.ts";
export { sayStory, stagesOf, type IfaceStage } from "./status/ifaces/phase-timings.ts";
export { LIVE_MIGRATABLE } from "./status/live-migratable.ts";
export { isTransientChange } from "./status/ifaces/ifaces.ts";
export { sayError, type StepFailure, type StepKind } from "./status/step-failure.ts";
export { unreachableIfaces } from "./status/ifaces/unreachable.ts";
export { vmStatus, type NewVmStatus, canVmStatusWait } from "./status/vm.ts";
export { ownVmiStatus, type OwnVmiStatus } from "./status/vmi.ts";
export type { MetricFamily } from "./metrics/family.ts";
export {
  ifacePhaseFamily,
  oldestPendingFamily,
  pendingIfaces,
  phasesEnded,
  reasonsTold,
  type PendingIface,
} from "./metrics/pending-ifaces.ts";
export {
  nicCounts,
  trafficFamilies,
  type DirectionCounts,
  type LinkCounts,
  type VmTraffic,
} from "./metrics/traffic.ts";
export {
  moveFamilies,
  migrationFamilies,
  vmiAddressFamily,
  vmiInfoFamily,
  vmiVnicFamily,
  vmVnicFamily,
} from "./metrics/vmis.ts";
export { queueFamilies, type QueueFigures } from "./metrics/queues.ts";
