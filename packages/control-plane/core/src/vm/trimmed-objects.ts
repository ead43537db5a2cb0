// SPDX-License-Identifier: Apache-2.0
// Removes the fields of objects that virt-controller does not read, so that its caches need less memory.
import { names, type VirtualMachine, type VirtualMachineInstance } from "@patchbay/api";
import type { ContainerStatus, KubeObject, ObjectMeta, Pod } from "@patchbay/api/kubernetes";
import { GUEST_LABEL_ANNOTATIONS } from "../metrics/vmis.ts";
import {
  FILL_MESSAGE_ANNOTATION,
  FILL_PHASE_ANNOTATION,
  FILL_STATE_ANNOTATION,
} from "./spec/data-volume.ts";

const LAUNCHER_ANNOTATIONS: readonly string[] = [
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
    LAUNCHER_ANNOTATIONS.includes(key),
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

type Annotated = Pick<ObjectMeta, "annotations">;

const READ_NAMES: ReadonlySet<unknown> = new Set([
  ...Object.values(names),
  ...Object.values(GUEST_LABEL_ANNOTATIONS),
  FILL_MESSAGE_ANNOTATION,
  FILL_PHASE_ANNOTATION,
  FILL_STATE_ANNOTATION,
]);

/** Maximum length of a template's unread annotations that remain in a cache, in characters. Most templates need no further read. */
const UNREAD_ANNOTATIONS_MAX = 4096;

const incompleteObjects = new WeakSet<KubeObject>();

/** Checks whether the object of a cache lacks annotations that its VMI or launcher pod inherits. */
export function isIncomplete(object: KubeObject): boolean {
  return incompleteObjects.has(object);
}

function measureAnnotations({ annotations = {} }: Annotated): number {
  return Object.entries(annotations).reduce(
    (sum, [name, value]) => sum + name.length + value.length,
    0,
  );
}

export function trimAnnotations<T extends Annotated>(metadata: T): T {
  if (metadata.annotations === undefined) return metadata;
  const annotations = Object.entries(metadata.annotations).filter(([name]) => READ_NAMES.has(name));
  return { ...metadata, annotations: Object.fromEntries(annotations) };
}

export function withTrimmedAnnotations<T extends KubeObject>(object: T): T {
  return { ...object, metadata: trimAnnotations(object.metadata) };
}

function limitAnnotations<T extends Annotated>(metadata: T): T {
  const trimmed = trimAnnotations(metadata);
  const unreadLength = measureAnnotations(metadata) - measureAnnotations(trimmed);
  return unreadLength <= UNREAD_ANNOTATIONS_MAX ? metadata : trimmed;
}

/** Trims long annotations of the template, which the VMI inherits, and all annotations of the VM that Patchbay does not read. */
export function trimStoredVm(vm: VirtualMachine): VirtualMachine {
  const { template } = vm.spec;
  const metadata = template.metadata && limitAnnotations(template.metadata);
  const spec = { ...vm.spec, template: { ...template, ...(metadata && { metadata }) } };
  const trimmed = { ...withTrimmedAnnotations(vm), spec };
  if (metadata !== template.metadata) incompleteObjects.add(trimmed);
  return trimmed;
}

export function trimStoredVmi(vmi: VirtualMachineInstance): VirtualMachineInstance {
  const metadata = limitAnnotations(vmi.metadata);
  if (metadata === vmi.metadata) return vmi;
  const trimmed = { ...vmi, metadata };
  incompleteObjects.add(trimmed);
  return trimmed;
}
