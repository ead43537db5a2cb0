// SPDX-License-Identifier: Apache-2.0
// Pure description of an offer: its devices, and what a container gets.
import { join } from "node:path";
import { VHOST_USER_DIR, VHOST_USER_LAUNCHER_DIR } from "@patchbay/api/names";
import { AppError, type Logger } from "@patchbay/base";

import type { AllocateRequest, ContainerAllocation, DeviceState, Mount } from "./protocol.ts";

/** Copies of device nodes for launchers. Like devices, they do not survive a reboot. */
const COPY_DIRECTORY = "/run/patchbay/devices";

export interface Offer {
  /** For example `devices.kubevirt.io/kvm`. */
  readonly resource: string;
  readonly count: number;
}

export interface DeviceOffer extends Offer {
  /** Path on the node and in containers, for example `/dev/net/tun`. */
  readonly path: string;
  /** Combination of `r`, `w` and `m`. */
  readonly permissions: string;
}

export function offerName({ resource }: Pick<Offer, "resource">): string {
  return resource.slice(resource.lastIndexOf("/") + 1);
}

/** Path on the node of the copy, which the launchers' user owns. */
export function copyPath(offer: DeviceOffer): string {
  return join(COPY_DIRECTORY, offerName(offer));
}

/** Devices as the kubelet counts them; all are healthy if the resource exists. */
export function listDevices(offer: Offer, exists: boolean): readonly DeviceState[] {
  const name = offerName(offer);
  const health = exists ? "Healthy" : "Unhealthy";
  return Array.from({ length: offer.count }, (_device, index) => ({
    ID: `${name}-${String(index)}`,
    health,
  }));
}

/** @throws AppError with DEVICE_UNKNOWN for a device that was never offered */
export function requireKnownDevices(offer: Offer, { containerRequests }: AllocateRequest): void {
  const known = new Set(listDevices(offer, true).map(({ ID }) => ID));
  const device = containerRequests
    .flatMap(({ devicesIds }) => devicesIds)
    .find((id) => !known.has(id));
  if (device !== undefined)
    throw new AppError("DEVICE_UNKNOWN", { resource: offer.resource, device });
}

export const EMPTY_ALLOCATION: ContainerAllocation = { devices: [], mounts: [] };

/** Mounts the copy at the device's own path, once, however many were requested. */
export function allocateDevice(offer: DeviceOffer): ContainerAllocation {
  const { path, permissions } = offer;
  const device = { containerPath: path, hostPath: copyPath(offer), permissions };
  return { devices: [device], mounts: [] };
}

/** Mounts the shown directories read-only, under the paths that the dataplane uses. */
export function allocateDirectories(ids: readonly string[]): ContainerAllocation {
  const mounts = ids.map((id): Mount => {
    const [containerPath, hostPath] = [VHOST_USER_DIR, VHOST_USER_LAUNCHER_DIR].map((parent) =>
      join(parent, id),
    ) as [string, string];
    return { containerPath, hostPath, readOnly: true };
  });
  return { devices: [], mounts };
}

/** Directories of all pods, writable for the dataplane. */
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
  /** The kubelet's directory, for example `/var/lib/kubelet`. */
  readonly kubeletDir: string;
  /** The node's `/` as this process sees it: `/`, or for example `/proc/1/root` in a pod. */
  readonly hostRoot: string;
}

export interface Supply {
  readonly offer: Offer;
  /** A directory to watch for changes of the resource's existence; unset if it never changes. */
  readonly watchedDirectory?: string;
  exists(): Promise<boolean>;
  /** Prepares for requests. Idempotent. */
  prepare(log: Logger): Promise<void>;
  /** Prepares what a container gets for these devices. @throws AppError if they cannot be assigned */
  allocate(ids: readonly string[], log: Logger): Promise<ContainerAllocation>;
}
