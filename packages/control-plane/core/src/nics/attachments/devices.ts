// SPDX-License-Identifier: Apache-2.0
// Assigns the pod's devices to its attachments. Source: Multus, k8sclient getKubernetesDelegate.

import { names } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";

export interface UsedDevice {
  readonly id: string;
  /** Resource of the device. If it is unset, the ID counts as in use for every resource. */
  readonly resource?: string;
  readonly holder: string;
}

export interface DeviceFacts {
  /** Devices that the kubelet assigned to the pod, sorted, by resource. */
  readonly given: ReadonlyMap<string, readonly string[]>;
  readonly held: readonly UsedDevice[];
  /** IDs of devices that other elements of the annotation request. */
  readonly named: readonly string[];
}

/** A request for a device, with at least one of its fields set. */
export interface DeviceRequest {
  readonly resource?: string;
  /** Device ID from the annotation's element, which gets this device or fails. */
  readonly id?: string;
}

type DeviceChoice =
  | { readonly ok: true; readonly id: string; readonly resource?: string }
  /**
   * The kubelet assigned no device of the resource, so the attachment uses none. Marker resources, such as
   * `bridge.network.kubevirt.io/br1`, only help scheduling; no device plugin serves them.
   */
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

/** Whether several attachments may use one device. A socket directory serves any number of NICs. */
function isShared(resource: string): boolean {
  return resource === names.VHOST_USER_RESOURCE;
}

/** Checks a requested ID. The annotation may contain any ID, but the pod may only use its own devices. */
function chooseRequested(
  id: string,
  resource: string | undefined,
  facts: DeviceFacts,
): DeviceChoice {
  const found = [...facts.given].find(
    ([name, ids]) => (resource === undefined || name === resource) && ids.includes(id),
  );
  if (found === undefined) {
    const of = resource === undefined ? "" : ` of ${resource}`;
    return { ok: false, reason: `the kubelet gave the pod no device ${id}${of}` };
  }
  const [podDevices] = found;
  const holder = findUser({ id, resource: podDevices }, facts.held);
  if (holder !== undefined && !isShared(podDevices))
    return { ok: false, reason: `${holder} has device ${id}` };
  return { ok: true, id, resource: podDevices };
}

/** Chooses a device: the requested ID, or else an unused device. Socket directories are shared once all are in use. */
export function chooseDevice({ resource, id }: DeviceRequest, facts: DeviceFacts): DeviceChoice {
  if (id !== undefined) return chooseRequested(id, resource, facts);
  if (resource === undefined) return { ok: false, reason: "its definition names no resource" };
  const ids = facts.given.get(resource) ?? [];
  if (ids.length === 0) {
    // Without a directory, the socket would be out of the pod's reach.
    if (!isShared(resource)) return { ok: true };
    return { ok: false, reason: `the kubelet gave the pod no device of ${resource}` };
  }
  const free = ids.find(
    (one) =>
      findUser({ id: one, resource }, facts.held) === undefined && !facts.named.includes(one),
  );
  const [first] = ids;
  const chosen = free ?? (isShared(resource) ? first : undefined);
  if (chosen !== undefined) return { ok: true, id: chosen, resource };
  const uses = ids.map((one) => {
    const holder = findUser({ id: one, resource }, facts.held);
    return `${one} is ${holder === undefined ? "named by another element" : `of ${holder}`}`;
  });
  return { ok: false, reason: `the pod has no more devices of ${resource}: ${uses.join(", ")}` };
}

/** Whether the kubelet may have assigned a device to the attachment. Only then must an unreachable kubelet delay it. */
export function mayHaveDevice({ resource, id }: DeviceRequest, pod: Pod | undefined): boolean {
  if (pod === undefined || resource === undefined || id !== undefined || isShared(resource)) {
    return true;
  }
  const { containers, initContainers = [] } = pod.spec;
  return [...containers, ...initContainers].some(
    ({ resources }) => resources?.limits?.[resource] !== undefined,
  );
}
