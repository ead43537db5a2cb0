// SPDX-License-Identifier: Apache-2.0
export {
  parseAttachmentErrors,
  printAttachmentErrors,
  type AttachmentError,
  type AttachmentErrors,
  parseVhostUserInfo,
  type VhostUserInfo,
  parseNetworkStatus,
  printNetworkStatus,
  sanitizeNetworkStatus,
  type NetworkStatus,
} from "./annotations/network-status.ts";
export {
  parsePreferredIps,
  parseRetainedAddresses,
  printRetainedAddresses,
  normalizeAddresses,
  type RetainedAddresses,
  parsePcieTopology,
  printPcieTopology,
} from "./annotations/restart-state.ts";
export {
  findGateways,
  validateNetworkSelection,
  isReadableSelection,
  NETWORKS_MAX,
  parseNetworks,
  printNetworks,
  type NetworksAnnotation,
  type NetworkSelection,
} from "./annotations/networks.ts";
export {
  validateHookSidecars,
  parseHookSidecars,
  type HookSidecarRequest,
} from "./annotations/hook-sidecars.ts";
export { customResourceDefinitions } from "./crds/definitions.ts";
export {
  type Attachment,
  type IfaceHistory,
  type IfaceOperation,
  type OperationEnd,
  IFACE_PHASES,
  type HotplugType,
  type IfacePhase,
} from "./kinds/iface-status.ts";
export {
  listBindings,
  isBinding,
  isAbsent,
  isDefaultNetwork,
  type Iface,
  type Network,
  isSecurityMode,
  SECURITY_MODES,
  type ClusterSecurity,
  type SecurityMode,
  type DhcpOptions,
} from "./kinds/network.ts";
export type {
  ConfigMap,
  Secret,
  ApiService,
  KubeEvent,
  KubeNode,
  Lease,
  NodeCondition,
  Taint,
  WebhookConfiguration,
  ControllerRevision,
  DaemonSet,
  Deployment,
} from "./kinds/kubernetes/core-kinds.ts";
export {
  type Instancetype,
  type InstancetypeSpec,
  CPU_TOPOLOGIES,
  type Preference,
  type PreferenceSpec,
} from "./kinds/instancetype.ts";
export {
  findRejectionReason,
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
export type { DataVolume, DataVolumeStatus, Disk, Volume } from "./kinds/guest/disks.ts";
export {
  configVersionOf,
  evictionStrategyOf,
  networkConfigOf,
  type AutoBinding,
  type EvictionStrategy,
  readOvercommitConfig,
  readStorageConfig,
  logsSerialConsoles,
  isDataplaneEnabled,
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
  findController,
  type Cause,
  type Condition,
  type KubeList,
  type KubeObject,
  type ObjectMeta,
  type StatusBody,
} from "./kinds/kubernetes/meta.ts";
export {
  buildMigrationConfig,
  type MigrationConfiguration,
  isMigrationFinal,
  MIGRATION_PHASES,
  MIGRATION_PRIORITIES,
  type VirtualMachineInstanceMigration,
  type MigrationPolicy,
  type MigrationState,
} from "./kinds/migration.ts";
export type { NetworkAttachmentDefinition, NodeProblem } from "./kinds/nad.ts";
export * as names from "./names.ts";
export {
  type Container,
  type ContainerStateDetails,
  type ContainerStatus,
  type EnvFromSource,
  type EnvVar,
  type Probe,
  type SecurityContext,
  type VolumeMount,
  isPodFinished,
  type Pod,
  type Toleration,
  type DownwardFile,
  type KeyToPath,
  type PodVolume,
  type ResourceFieldSelector,
  type VolumeProjection,
} from "./kinds/kubernetes/pod.ts";
export type { GuestProbe, VmiSpec } from "./kinds/vmi-spec.ts";
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
  startsAutomatically,
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
export {
  effectiveVmiSpec,
  unactedFieldsOfVm,
  unactedFieldsOfVmi,
  findUnbuiltField,
  vmFields,
  type FieldProblem,
  type UnactedFields,
  findMistypedFields,
  findMalformedQuantities,
} from "./validate/fields.ts";
export type { SchemaField } from "./fields/walk.ts";
export { withCurrentFieldNames } from "./kinds/field-aliases.ts";
export {
  POLICY_FIELD_NAMES,
  POLICY_FIELDS,
  type ClusterTenantPolicy,
  type PolicyFieldName,
  validatePolicyList,
} from "./kinds/tenant-policy.ts";
export {
  parseNatPrefix,
  IP_BITS,
  isWithin,
  toNetworkAddress,
  parseIp,
  parseSloppyIp,
  printAddress,
  type IpPrefix,
  isLinkLocal,
  toLinkLocal,
} from "./values/ip.ts";
export { isNicMac, MAC_BYTES, normalizeMac, parseMac } from "./values/mac.ts";
export { parseNadName, type NadName } from "./values/name-syntax.ts";
export {
  buildAutoNic,
  declaresNoNics,
  findAutoNic,
  isSecondary,
  withDefaultBinding,
} from "./validate/defaults.ts";
export {
  isJsonObject,
  parseJson,
  printGoJson,
  type JsonObject,
  type JsonPatchOperation,
} from "./values/json.ts";
export { parseQuantity } from "./values/quantity.ts";
export {
  validateVmChange,
  validateVmiChange,
  validateGuest,
  validateVmiSpec,
  validateVmiNetworkChange,
} from "./validate/spec.ts";
export { validateVmName } from "./validate/guest/names.ts";
export {
  validateInstancetype,
  validatePreference,
  preferenceWarnings,
} from "./validate/instancetypes.ts";
export { ifacePath } from "./validate/rule.ts";
