// SPDX-License-Identifier: Apache-2.0
// Removes the fields of launcher pods that virt-controller does not read, so that its cache needs less memory.
import { names } from "@patchbay/api";
import type { ContainerStatus, ObjectMeta, Pod } from "@patchbay/api/kubernetes";

const ANNOTATIONS: readonly string[] = [
  names.NETWORKS_ANNOTATION,
  names.DEFAULT_NETWORK_ANNOTATION,
  names.PRIMARY_CLAIM_ANNOTATION,
  names.NETWORK_STATUS_ANNOTATION,
  names.ATTACHMENT_ERRORS_ANNOTATION,
  names.CNI_GATEWAYS_ANNOTATION,
  names.NETWORK_INFO_ANNOTATION,
];

const RETAINED_CONDITIONS: readonly string[] = ["PodScheduled", "Ready"];

function trimMetadata(metadata: ObjectMeta): ObjectMeta {
  const { name, namespace, uid, resourceVersion, ownerReferences } = metadata;
  const { creationTimestamp, deletionTimestamp, deletionGracePeriodSeconds } = metadata;
  const annotations = Object.entries(metadata.annotations ?? {}).filter(([key]) =>
    ANNOTATIONS.includes(key),
  );
  return {
    name,
    ...(namespace !== undefined && { namespace }),
    ...(uid !== undefined && { uid }),
    ...(resourceVersion !== undefined && { resourceVersion }),
    ...(creationTimestamp !== undefined && { creationTimestamp }),
    ...(deletionTimestamp !== undefined && { deletionTimestamp }),
    ...(deletionGracePeriodSeconds !== undefined && { deletionGracePeriodSeconds }),
    ...(ownerReferences !== undefined && { ownerReferences }),
    annotations: Object.fromEntries(annotations),
  };
}

function trimSpec(spec: Pod["spec"]): Pod["spec"] {
  const { nodeName, initContainers, volumes, resourceClaims } = spec;
  return {
    ...(nodeName !== undefined && { nodeName }),
    ...(initContainers !== undefined && {
      initContainers: initContainers.map(({ name, image }) => ({ name, image })),
    }),
    containers: [],
    ...(volumes !== undefined && {
      volumes: volumes.map(({ name, image }) => ({ name, ...(image !== undefined && { image }) })),
    }),
    ...(resourceClaims !== undefined && { resourceClaims }),
  };
}

function trimContainer(status: ContainerStatus): ContainerStatus {
  const { name, image, imageID, ready, restartCount, state } = status;
  return { name, image, imageID, ready, restartCount, state };
}

function trimStatus(status: NonNullable<Pod["status"]>): NonNullable<Pod["status"]> {
  const { phase, reason, message, podIPs, conditions } = status;
  const { initContainerStatuses, containerStatuses, resourceClaimStatuses } = status;
  return {
    ...(phase !== undefined && { phase }),
    ...(reason !== undefined && { reason }),
    ...(message !== undefined && { message }),
    ...(podIPs !== undefined && { podIPs }),
    ...(conditions !== undefined && {
      conditions: conditions.filter(({ type }) => RETAINED_CONDITIONS.includes(type)),
    }),
    ...(initContainerStatuses !== undefined && {
      initContainerStatuses: initContainerStatuses.map(trimContainer),
    }),
    ...(containerStatuses !== undefined && {
      containerStatuses: containerStatuses.map(trimContainer),
    }),
    ...(resourceClaimStatuses !== undefined && { resourceClaimStatuses }),
  };
}

export function trimLauncher({ apiVersion, kind, metadata, spec, status }: Pod): Pod {
  return {
    apiVersion,
    kind,
    metadata: trimMetadata(metadata),
    spec: trimSpec(spec),
    ...(status !== undefined && { status: trimStatus(status) }),
  };
}
