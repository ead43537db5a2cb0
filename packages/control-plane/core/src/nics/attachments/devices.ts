// SPDX-License-Identifier: Apache-2.0
// Assigns the pod's devices to its attachments. Source: Multus, k8sclient getKubernetesDelegate.

import { names } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";

export interface UsedDevice {
  readonly id: string;
  /** Unset if unknown. The ID then counts as in use for every resource. */
  readonly resource?: string;
  readonly holder: string;
}

export interface DeviceFacts {
  /** Devices that the kubelet assigned to the pod, sorted, by resource. */
  readonly given: ReadonlyMap<string, readonly string[]>;
  readonly held: readonly UsedDevice[];
  /** Devices that other elements of the annotation request by ID. */
  readonly named: readonly string[];
}

/** At least one is set. */
export interface DeviceRequest {
  readonly resource?: string;
  /** From the annotation's element, which gets this device or fails. */
  readonly id?: string;
}

type DeviceChoice =
  | { readonly ok: true; readonly id: string; readonly resource?: string }
  /**
   * The kubelet assigned no device of the resource, so none is used. Marker resources, such as
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

/** A socket directory serves any number of NICs. */
function isShared(resource: string): boolean {
  return resource === names.VHOST_USER_RESOURCE;
}

/** The annotation may request any ID, but only the pod's own devices are allowed. */
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

/** Requested IDs take precedence. Socket directories are shared once all are in use. */
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

/** Whether the kubelet may have assigned a device. An unreachable kubelet only delays such attachments. */
export function mayHaveDevice({ resource, id }: DeviceRequest, pod: Pod | undefined): boolean {
  if (pod === undefined || resource === undefined || id !== undefined || isShared(resource)) {
    return true;
  }
  const { containers, initContainers = [] } = pod.spec;
  return [...containers, ...initContainers].some(
    ({ resources }) => resources?.limits?.[resource] !== undefined,
  );
}
