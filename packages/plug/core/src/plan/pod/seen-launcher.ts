// SPDX-License-Identifier: Apache-2.0
// What of a launcher pod that is there does virt-controller look at? A pod as the API server keeps it is four times as large.
import { names, type ContainerStatus, type ObjectMeta, type Pod } from "@patchbay/api";

const ANNOTATIONS: readonly string[] = [
  names.NETWORKS_ANNOTATION,
  names.NETWORK_STATUS_ANNOTATION,
  names.ATTACHMENT_ERRORS_ANNOTATION,
  names.NETWORK_INFO_ANNOTATION,
];

/** Whether it has a node, and whether its probes pass. */
const CONDITIONS: readonly string[] = ["PodScheduled", "Ready"];

function seenMetadata(metadata: ObjectMeta): ObjectMeta {
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

/** Which pods are on which node, and the images by which a person knows a container or a volume. */
function seenSpec({ nodeName, initContainers, volumes }: Pod["spec"]): Pod["spec"] {
  return {
    ...(nodeName !== undefined && { nodeName }),
    ...(initContainers !== undefined && {
      initContainers: initContainers.map(({ name, image }) => ({ name, image })),
    }),
    containers: [],
    ...(volumes !== undefined && {
      volumes: volumes.map(({ name, image }) => ({ name, ...(image !== undefined && { image }) })),
    }),
  };
}

function seenContainer(status: ContainerStatus): ContainerStatus {
  const { name, image, imageID, ready, restartCount, state } = status;
  return { name, image, imageID, ready, restartCount, state };
}

function seenStatus(status: NonNullable<Pod["status"]>): NonNullable<Pod["status"]> {
  const { phase, reason, message, podIPs, conditions } = status;
  const { initContainerStatuses, containerStatuses } = status;
  return {
    ...(phase !== undefined && { phase }),
    ...(reason !== undefined && { reason }),
    ...(message !== undefined && { message }),
    ...(podIPs !== undefined && { podIPs }),
    ...(conditions !== undefined && {
      conditions: conditions.filter(({ type }) => CONDITIONS.includes(type)),
    }),
    ...(initContainerStatuses !== undefined && {
      initContainerStatuses: initContainerStatuses.map(seenContainer),
    }),
    ...(containerStatuses !== undefined && {
      containerStatuses: containerStatuses.map(seenContainer),
    }),
  };
}

/**
 * The pod with nothing but what virt-controller's plans and reports read of launchers: `containers` is empty. The tests
 * of its loops work on such pods.
 */
export function seenLauncher({ apiVersion, kind, metadata, spec, status }: Pod): Pod {
  return {
    apiVersion,
    kind,
    metadata: seenMetadata(metadata),
    spec: seenSpec(spec),
    ...(status !== undefined && { status: seenStatus(status) }),
  };
}
