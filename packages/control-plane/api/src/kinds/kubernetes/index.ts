// SPDX-License-Identifier: Apache-2.0
export type {
  ConfigMap,
  Secret,
  ApiService,
  KubeEvent,
  KubeNode,
  Lease,
  Namespace,
  NodeCondition,
  Taint,
  WebhookConfiguration,
  ControllerRevision,
  DaemonSet,
  Deployment,
} from "./core-kinds.ts";
export {
  findController,
  type Cause,
  type Condition,
  type KubeList,
  type KubeObject,
  type ObjectMeta,
  type StatusBody,
} from "./meta.ts";
export type { LabelSelector, NetworkPolicy, PolicyPeer, PolicyPort } from "./network-policy.ts";
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
  type PodResourceClaim,
  type Toleration,
  type DownwardFile,
  type KeyToPath,
  type PodVolume,
  type ResourceFieldSelector,
  type VolumeProjection,
} from "./pod.ts";
export type {
  AllocatedDevice,
  NetworkDeviceData,
  ResourceClaim,
  ResourceClaimTemplate,
} from "./resource-claim.ts";
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
} from "./service.ts";
export type {
  ClaimReference,
  PersistentVolume,
  PersistentVolumeClaim,
  StorageClass,
  VolumeMode,
} from "./storage.ts";
