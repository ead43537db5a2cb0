// SPDX-License-Identifier: Apache-2.0
// The public door of api.
export {
  parseAttachmentErrors,
  printAttachmentErrors,
  type AttachmentError,
  type AttachmentErrors,
} from "./annotations/attachment-errors.ts";
export { vhostUserOf, type VhostUserInfo } from "./annotations/device-info.ts";
export {
  keptIpsOf,
  parseKeptAddresses,
  printKeptAddresses,
  soundAddresses,
  type KeptAddresses,
} from "./annotations/kept-addresses.ts";
export { gatewaysOf, requestCausesOf } from "./annotations/network-request.ts";
export {
  isReadableSelection,
  NETWORKS_MAX,
  parseNetworks,
  printNetworks,
  type NetworksAnnotation,
  type NetworkSelection,
} from "./annotations/networks.ts";
export {
  parseNetworkStatus,
  printNetworkStatus,
  soundNetworkStatus,
  type NetworkStatus,
} from "./annotations/network-status.ts";
export {
  hookSidecarProblems,
  hookSidecarsOf,
  type HookSidecarRequest,
} from "./annotations/hook-sidecars.ts";
export { parsePcieTopology, printPcieTopology } from "./annotations/pcie-topology.ts";
export { customResourceDefinitions } from "./crds/definitions.ts";
export type { Attachment } from "./kinds/attachment.ts";
export { bindingsOf, isBinding } from "./kinds/binding.ts";
export type { ConfigMap, Secret } from "./kinds/kubernetes/config.ts";
export type {
  ApiService,
  KubeEvent,
  KubeNode,
  Lease,
  NodeCondition,
  Taint,
  WebhookConfiguration,
} from "./kinds/kubernetes/core-kinds.ts";
export type { ControllerRevision } from "./kinds/kubernetes/controller-revision.ts";
export type { DaemonSet, Deployment } from "./kinds/kubernetes/installed-kinds.ts";
export type { Instancetype, InstancetypeSpec } from "./kinds/instancetype/instancetype.ts";
export {
  CPU_TOPOLOGIES,
  type Preference,
  type PreferenceSpec,
} from "./kinds/instancetype/preference.ts";
export { refusalOf } from "./kinds/refused-kinds.ts";
export type { DataVolume, DataVolumeStatus } from "./kinds/guest/data-volume.ts";
export type { Disk } from "./kinds/guest/disk.ts";
export {
  configVersionOf,
  evictionStrategyOf,
  networkConfigOf,
  type AutoBinding,
  type EvictionStrategy,
  overcommitConfigOf,
  storageConfigOf,
  logsConsoles,
  offersDataplane,
  usesEmulation,
  type BindingPlugin,
  type BindingRegistry,
  type KubeVirt,
  type KubeVirtStatus,
  type NetworkConfig,
  type OvercommitConfig,
  type StorageConfig,
} from "./kinds/kubevirt-config.ts";
export {
  controllerOf,
  type Cause,
  type Condition,
  type KubeList,
  type KubeObject,
  type ObjectMeta,
  type StatusBody,
} from "./kinds/kubernetes/meta.ts";
export { migrationConfigOf, type MigrationConfiguration } from "./kinds/migration/configuration.ts";
export {
  isMigrationFinal,
  MIGRATION_PHASES,
  MIGRATION_PRIORITIES,
  type VirtualMachineInstanceMigration,
} from "./kinds/migration/migration.ts";
export type { MigrationPolicy } from "./kinds/migration/policy.ts";
export type { MigrationState } from "./kinds/migration/state.ts";
export type { NetworkAttachmentDefinition, NodeProblem } from "./kinds/nad.ts";
export * as names from "./names.ts";
export { isAbsent, isDefaultNetwork, type Iface, type Network } from "./kinds/network.ts";
export type {
  Container,
  ContainerStateDetails,
  ContainerStatus,
  EnvFromSource,
  EnvVar,
  Probe,
  SecurityContext,
  VolumeMount,
} from "./kinds/kubernetes/container.ts";
export type { GuestProbe } from "./kinds/guest/probe.ts";
export { isPodFinished, type Pod, type Toleration } from "./kinds/kubernetes/pod.ts";
export type {
  DownwardFile,
  KeyToPath,
  PodVolume,
  ResourceFieldSelector,
  VolumeProjection,
} from "./kinds/kubernetes/pod-volume.ts";
export {
  API_SERVICES,
  CLUSTER_INSTANCETYPES,
  CLUSTER_PREFERENCES,
  CONFIG_MAPS,
  CONTROLLER_REVISIONS,
  DAEMON_SETS,
  DATA_SOURCES,
  DATA_VOLUMES,
  DEPLOYMENTS,
  ENDPOINTS,
  ENDPOINT_SLICES,
  EVENTS,
  INSTANCETYPES,
  KUBEVIRTS,
  LEASES,
  MIGRATION_POLICIES,
  MUTATING_WEBHOOKS,
  NAMESPACES,
  NETWORK_ATTACHMENT_DEFINITIONS,
  NODES,
  PERSISTENT_VOLUMES,
  PERSISTENT_VOLUME_CLAIMS,
  PODS,
  PREFERENCES,
  SECRETS,
  SERVICES,
  STORAGE_CLASSES,
  VALIDATING_WEBHOOKS,
  VIRTUAL_MACHINES,
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINE_INSTANCE_MIGRATIONS,
  apiVersionOf,
  type ResourceType,
} from "./kinds/resource.ts";
export {
  SERVICE_NAME_LABEL,
  SLICE_ENDPOINTS_MAX,
  SLICE_WRITER_LABEL,
  type Endpoint,
  type EndpointPort,
  type Endpoints,
  type EndpointsAddress,
  type EndpointSlice,
  type EndpointsSubset,
  type Service,
  type ServicePort,
} from "./kinds/kubernetes/service.ts";
export type {
  ClaimReference,
  PersistentVolume,
  PersistentVolumeClaim,
  StorageClass,
  VolumeMode,
} from "./kinds/kubernetes/storage.ts";
export {
  runStrategyOf,
  startsByItself,
  type Matcher,
  type MatcherRef,
  type PcieTopology,
  type RunStrategy,
  type StartFailure,
  type StateChangeRequest,
  type VirtualMachine,
  type VmSpec,
  type VmStatus,
} from "./kinds/vm.ts";
export type { IfaceHistory, IfaceOperation, OperationEnd } from "./kinds/iface-history.ts";
export { IFACE_PHASES, type HotplugType, type IfacePhase } from "./kinds/iface-phase.ts";
export {
  isFinalPhase,
  isVmiFinal,
  type AddressSource,
  type GuestOsInfo,
  type IfaceStatus,
  type VirtualMachineInstance,
  type VmiPhase,
  type VmiStatus,
} from "./kinds/vmi.ts";
export type { VmiSpec } from "./kinds/vmi-spec.ts";
export type { Volume } from "./kinds/guest/volume.ts";
export {
  effectiveVmiSpec,
  unactedFieldsOfVm,
  unactedFieldsOfVmi,
  unbuiltFieldOf,
  vmFields,
  type FieldProblem,
  type UnactedFields,
} from "./validate/unsupported.ts";
export type { SchemaField } from "./fields/walk.ts";
export { inCurrentWords } from "./spellings/in-current-words.ts";
export {
  isSecurityMode,
  SECURITY_MODES,
  type ClusterSecurity,
  type SecurityMode,
} from "./kinds/guest/port-security.ts";
export {
  POLICY_FIELD_NAMES,
  POLICY_FIELDS,
  type ClusterTenantPolicy,
  type PolicyFieldName,
} from "./kinds/tenant-policy.ts";
export { natPrefixOf } from "./values/nat-prefix.ts";
export {
  IP_BITS,
  isWithin,
  networkOf,
  parseIp,
  parseSloppyIp,
  printAddress,
  type IpPrefix,
} from "./values/ip.ts";
export { isLinkLocal, linkLocalOf } from "./values/link-local.ts";
export { isNicMac, MAC_BYTES, normalizeMac, parseMac } from "./values/mac.ts";
export { parseNadName, type NadName } from "./values/nad-name.ts";
export {
  autoNicOf,
  declaresNoNics,
  findAutoNic,
  isSecondary,
  withDefaultBinding,
} from "./validate/defaults.ts";
export { isJsonObject, parseJson, printGoJson, type JsonObject } from "./values/json.ts";
export type { JsonPatchOperation } from "./values/json-patch.ts";
export { parseQuantity } from "./values/quantity.ts";
export { validateVmChange, validateVmiChange } from "./validate/change.ts";
export { vmNameCauses } from "./validate/guest/names.ts";
export {
  instancetypeCauses,
  preferenceCauses,
  preferenceWarnings,
} from "./validate/instancetypes.ts";
export { policyCauses } from "./validate/tenant-policy.ts";
export { ifacePath } from "./validate/rule.ts";
export { misshapenFields } from "./fields/shape.ts";
export { unreadableQuantities } from "./validate/quantities.ts";
export { guestProblems, validateVmiSpec } from "./validate/spec.ts";
export { validateVmiNetworkChange } from "./validate/vmi-change.ts";
export type { DhcpOptions } from "./kinds/guest/dhcp-options.ts";
