// SPDX-License-Identifier: Apache-2.0
// Lists the devices that a device plugin offers, and allocates them to containers.
import { join } from "node:path";
import { VHOST_USER_DIR, VHOST_USER_LAUNCHER_DIR } from "@patchbay/api/names";
import { AppError, type Logger } from "@patchbay/base";

import type { AllocateRequest, ContainerAllocation, DeviceState, Mount } from "./protocol.ts";

/** Directory of copied device nodes. It is below `/run`, so that a reboot deletes the copies, like the original nodes. */
const COPY_DIRECTORY = "/run/patchbay/devices";

export interface Offer {
  /** Name of the resource, for example `devices.kubevirt.io/kvm`. */
  readonly resource: string;
  readonly count: number;
}

export interface DeviceOffer extends Offer {
  /** Path on the node and in containers, for example `/dev/net/tun`. */
  readonly path: string;
  /** Combination of `r` (read), `w` (write) and `m` (create device node). */
  readonly permissions: string;
}

export function toOfferName({ resource }: Pick<Offer, "resource">): string {
  return resource.slice(resource.lastIndexOf("/") + 1);
}

export function findCopyPath(offer: DeviceOffer): string {
  return join(COPY_DIRECTORY, toOfferName(offer));
}

/** Lists the offered devices. `exists` is whether the device file exists on the node. */
export function listDevices(offer: Offer, exists: boolean): readonly DeviceState[] {
  const name = toOfferName(offer);
  const health = exists ? "Healthy" : "Unhealthy";
  return Array.from({ length: offer.count }, (_device, index) => ({
    ID: `${name}-${String(index)}`,
    health,
  }));
}

/** @throws AppError with DEVICE_UNKNOWN if the request contains a device that is not offered */
export function requireKnownDevices(offer: Offer, { containerRequests }: AllocateRequest): void {
  const offeredIds = new Set(listDevices(offer, true).map(({ ID }) => ID));
  const unknownId = containerRequests
    .flatMap(({ devicesIds }) => devicesIds)
    .find((id) => !offeredIds.has(id));
  if (unknownId !== undefined)
    throw new AppError("DEVICE_UNKNOWN", { resource: offer.resource, device: unknownId });
}

export const EMPTY_ALLOCATION: ContainerAllocation = { devices: [], mounts: [] };

/** Allocates one device node, however many are requested. The container sees Patchbay's copy of the node at the node's own path. */
export function allocateDevice(offer: DeviceOffer): ContainerAllocation {
  const { path, permissions } = offer;
  const device = { containerPath: path, hostPath: findCopyPath(offer), permissions };
  return { devices: [device], mounts: [] };
}

/** Returns read-only mounts of the pod's socket directories, at the same paths as in the pods of the dataplane. */
export function allocateDirectories(ids: readonly string[]): ContainerAllocation {
  const mounts = ids.map((id): Mount => {
    const [containerPath, hostPath] = [VHOST_USER_DIR, VHOST_USER_LAUNCHER_DIR].map((parent) =>
      join(parent, id),
    ) as [string, string];
    return { containerPath, hostPath, readOnly: true };
  });
  return { devices: [], mounts };
}

/** Allocation for the dataplane: a writable mount with the socket directories of all pods. */
export const ALL_DIRECTORIES_ALLOCATION: ContainerAllocation = {
  devices: [],
  mounts: [
    {
      containerPath: VHOST_USER_DIR,
      hostPath: VHOST_USER_DIR,
      readOnly: false,
    },
  ],
};

export interface OfferPaths {
  /** Directory of kubelet, for example `/var/lib/kubelet`. */
  readonly kubeletDir: string;
  /** Path at which this process sees the node's root directory, for example `/proc/1/root` in a pod with `hostPID`, or `/` outside pods. */
  readonly hostRoot: string;
}

export interface ResourceProvider {
  readonly offer: Offer;
  /** Directory to watch for the creation and deletion of the resource. Unset if the resource always exists. */
  readonly watchedDirectory?: string;
  exists(): Promise<boolean>;
  /** Creates the files or directories that allocations require on the node. Idempotent. */
  prepare(log: Logger): Promise<void>;
  /** Creates files or directories for the devices and returns the container's allocation. @throws AppError if the resource is missing */
  allocate(ids: readonly string[], log: Logger): Promise<ContainerAllocation>;
}
