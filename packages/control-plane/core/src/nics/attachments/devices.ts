// SPDX-License-Identifier: Apache-2.0
// Assigns the pod's devices to its attachments. Source: Multus, k8sclient getKubernetesDelegate.

import { names } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";

export interface UsedDevice {
  readonly id: string;
  /** Resource of the device. If unset, the ID is in use for every resource. */
  readonly resource?: string;
  readonly holder: string;
}

export interface DeviceFacts {
  /** Sorted IDs of the devices that the kubelet allocated to the pod, by resource. */
  readonly allocated: ReadonlyMap<string, readonly string[]>;
  readonly inUse: readonly UsedDevice[];
  /** IDs of the devices that other elements of the annotation request. */
  readonly requestedElsewhere: readonly string[];
}

/** A request for a device. At least one field is set. */
export interface DeviceRequest {
  readonly resource?: string;
  /** Device ID from the pod's annotation of requested networks. If set, no device with another ID is assigned. */
  readonly id?: string;
}

type DeviceChoice =
  | { readonly ok: true; readonly id: string; readonly resource?: string }
  /** No device. Marker resources such as `bridge.network.kubevirt.io/br1` have no devices and only affect scheduling. */
  | { readonly ok: true; readonly id?: undefined }
  | { readonly ok: false; readonly reason: string };

function findUser(
  { id, resource }: { readonly id: string; readonly resource: string },
  inUse: readonly UsedDevice[],
): string | undefined {
  return inUse.find(
    (other) => other.id === id && (other.resource === undefined || other.resource === resource),
  )?.holder;
}

/** Checks whether several attachments may share one device. Only directories for vhost-user sockets may be shared. */
function isShared(resource: string): boolean {
  return resource === names.VHOST_USER_RESOURCE;
}

/** Chooses the device with the requested ID. The device must be allocated to the pod, because the annotation may contain any ID. */
function chooseRequested(
  id: string,
  resource: string | undefined,
  facts: DeviceFacts,
): DeviceChoice {
  const assigned = [...facts.allocated].find(
    ([name, ids]) => (resource === undefined || name === resource) && ids.includes(id),
  );
  if (assigned === undefined) {
    const resourceText = resource === undefined ? "" : ` of ${resource}`;
    return { ok: false, reason: `the kubelet gave the pod no device ${id}${resourceText}` };
  }
  const [podDevices] = assigned;
  const holder = findUser({ id, resource: podDevices }, facts.inUse);
  if (holder !== undefined && !isShared(podDevices))
    return { ok: false, reason: `${holder} has device ${id}` };
  return { ok: true, id, resource: podDevices };
}

/** Chooses the requested device or, without a request, an unused device. If all are in use, a vhost-user NIC shares the first directory. */
export function chooseDevice({ resource, id }: DeviceRequest, facts: DeviceFacts): DeviceChoice {
  if (id !== undefined) return chooseRequested(id, resource, facts);
  if (resource === undefined) return { ok: false, reason: "its definition names no resource" };
  const ids = facts.allocated.get(resource) ?? [];
  if (ids.length === 0) {
    // A vhost-user NIC needs its device, the socket directory. Other resources may have no devices and only affect scheduling.
    if (!isShared(resource)) return { ok: true };
    return { ok: false, reason: `the kubelet gave the pod no device of ${resource}` };
  }
  const free = ids.find(
    (deviceId) =>
      findUser({ id: deviceId, resource }, facts.inUse) === undefined &&
      !facts.requestedElsewhere.includes(deviceId),
  );
  const [first] = ids;
  const chosen = free ?? (isShared(resource) ? first : undefined);
  if (chosen !== undefined) return { ok: true, id: chosen, resource };
  const usages = ids.map((deviceId) => {
    const holder = findUser({ id: deviceId, resource }, facts.inUse);
    return `${deviceId} is ${holder === undefined ? "named by another element" : `of ${holder}`}`;
  });
  return { ok: false, reason: `the pod has no more devices of ${resource}: ${usages.join(", ")}` };
}

/** Checks whether the kubelet may have allocated a device for the attachment. If so, ADD must wait for the kubelet's device list. */
export function mayHaveDevice({ resource, id }: DeviceRequest, pod: Pod | undefined): boolean {
  if (pod === undefined || resource === undefined || id !== undefined || isShared(resource)) {
    return true;
  }
  const { containers, initContainers = [] } = pod.spec;
  return [...containers, ...initContainers].some(
    ({ resources }) => resources?.limits?.[resource] !== undefined,
  );
}
