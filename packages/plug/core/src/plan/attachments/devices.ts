// SPDX-License-Identifier: Apache-2.0
// Which of its devices does an attachment of a pod get? Source: Multus, k8sclient getKubernetesDelegate.

import { names, type Pod } from "@patchbay/api";

/** A device that an attachment has. */
export interface HeldDevice {
  readonly id: string;
  /** Absent: it is not known of which it is, so that the device of every resource that has its ID is in use. */
  readonly resource?: string;
  /** NIC in the pod that has it. */
  readonly holder: string;
}

/** What the choice rests on. */
export interface DeviceFacts {
  /** The devices that the kubelet has given to the pod, by resource, each list sorted. */
  readonly given: ReadonlyMap<string, readonly string[]>;
  readonly held: readonly HeldDevice[];
  /** Devices that other elements of the annotation name. */
  readonly named: readonly string[];
}

/** What an attachment asks for; at least one of the two. */
export interface DeviceRequest {
  /** Of the network's definition. */
  readonly resource?: string;
  /** Of the element: it gets this device, or none. */
  readonly id?: string;
}

/** The device, or why the attachment cannot have one. */
type DeviceChoice =
  | { readonly ok: true; readonly id: string; readonly resource?: string }
  /**
   * The kubelet gave the pod nothing of the resource, so the attachment is made without a device. Marker resources, such as
   * `bridge.network.kubevirt.io/br1`, only tell the scheduler which nodes have a bridge; no device plugin serves them.
   */
  | { readonly ok: true; readonly id?: undefined }
  | { readonly ok: false; readonly reason: string };

function findHolder(
  { id, resource }: { readonly id: string; readonly resource: string },
  held: readonly HeldDevice[],
): string | undefined {
  return held.find(
    (other) => other.id === id && (other.resource === undefined || other.resource === resource),
  )?.holder;
}

/** A directory of sockets holds those of any number of NICs. */
function isShared(resource: string): boolean {
  return resource === names.VHOST_USER_RESOURCE;
}

/** Whoever may write a pod's annotation may name any device: only one that the pod has is its to use. */
function chooseNamed(id: string, resource: string | undefined, facts: DeviceFacts): DeviceChoice {
  const found = [...facts.given].find(
    ([name, ids]) => (resource === undefined || name === resource) && ids.includes(id),
  );
  if (found === undefined) {
    const of = resource === undefined ? "" : ` of ${resource}`;
    return { ok: false, reason: `the kubelet gave the pod no device ${id}${of}` };
  }
  const [own] = found;
  const holder = findHolder({ id, resource: own }, facts.held);
  if (holder !== undefined && !isShared(own))
    return { ok: false, reason: `${holder} has device ${id}` };
  return { ok: true, id, resource: own };
}

/**
 * The device that is named, or the first one of the resource that no other attachment has and no other element names; of
 * directories of sockets the first one of all where none is left.
 */
export function chooseDevice({ resource, id }: DeviceRequest, facts: DeviceFacts): DeviceChoice {
  if (id !== undefined) return chooseNamed(id, resource, facts);
  if (resource === undefined) return { ok: false, reason: "its definition names no resource" };
  const ids = facts.given.get(resource) ?? [];
  if (ids.length === 0) {
    // Without a directory the socket would be made where the pod cannot reach it.
    if (!isShared(resource)) return { ok: true };
    return { ok: false, reason: `the kubelet gave the pod no device of ${resource}` };
  }
  const free = ids.find(
    (one) =>
      findHolder({ id: one, resource }, facts.held) === undefined && !facts.named.includes(one),
  );
  const [first] = ids;
  const chosen = free ?? (isShared(resource) ? first : undefined);
  if (chosen !== undefined) return { ok: true, id: chosen, resource };
  const uses = ids.map((one) => {
    const holder = findHolder({ id: one, resource }, facts.held);
    return `${one} is ${holder === undefined ? "named by another element" : `of ${holder}`}`;
  });
  return { ok: false, reason: `the pod has no more devices of ${resource}: ${uses.join(", ")}` };
}

/**
 * Whether the kubelet may have given the pod a device for the request. A kubelet that cannot be reached holds up only such
 * attachments: it gives devices of a resource to pods that request the resource.
 */
export function mayHaveDevice({ resource, id }: DeviceRequest, pod: Pod | undefined): boolean {
  if (pod === undefined || resource === undefined || id !== undefined || isShared(resource)) {
    return true;
  }
  const { containers, initContainers = [] } = pod.spec;
  return [...containers, ...initContainers].some(
    ({ resources }) => resources?.limits?.[resource] !== undefined,
  );
}
