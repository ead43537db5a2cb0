// SPDX-License-Identifier: Apache-2.0
// What is offered under a resource, and what a container gets that asks for it. Pure.
import { join } from "node:path";
import { VHOST_USER_DIR, VHOST_USER_SHOWN_DIR } from "@patchbay/api/names";
import { AppError } from "@patchbay/core/errors";
import type { AllocateRequest, ContainerAllocation, DeviceState, Mount } from "./protocol.ts";

/** Where the node's copies of devices are, which launchers get. What is in `/run` is gone after a boot, as devices are. */
const COPIES = "/run/patchbay/devices";

/** What containers of the node may ask for. */
export interface Offer {
  /** For example `devices.kubevirt.io/kvm`. */
  readonly resource: string;
  /** How many there are of it. */
  readonly count: number;
}

/** A device of the node that many containers may have at once. */
export interface DeviceOffer extends Offer {
  /** Its file, on the node and in containers, for example `/dev/net/tun`. */
  readonly path: string;
  /** Of `r`, `w`, `m`. */
  readonly permissions: string;
}

/** The last part of the resource's name: it names the devices, and the plugin's socket. */
export function nameOfOffer({ resource }: Pick<Offer, "resource">): string {
  return resource.slice(resource.lastIndexOf("/") + 1);
}

/** On the node, the device that containers get: the same one, and theirs to open. */
export function copyOfOffer(offer: DeviceOffer): string {
  return join(COPIES, nameOfOffer(offer));
}

/** The devices as the kubelet counts them: all are healthy while there is what they are. */
export function listDevices(offer: Offer, isThere: boolean): readonly DeviceState[] {
  const name = nameOfOffer(offer);
  const health = isThere ? "Healthy" : "Unhealthy";
  return Array.from({ length: offer.count }, (_device, index) => ({
    ID: `${name}-${String(index)}`,
    health,
  }));
}

/** @throws AppError with DEVICE_UNKNOWN for what was never offered */
export function checkKnown(offer: Offer, { containerRequests }: AllocateRequest): void {
  const known = new Set(listDevices(offer, true).map(({ ID }) => ID));
  const device = containerRequests
    .flatMap(({ devicesIds }) => devicesIds)
    .find((id) => !known.has(id));
  if (device !== undefined)
    throw new AppError("DEVICE_UNKNOWN", { resource: offer.resource, device });
}

/** What a container gets that asks for none. */
export const NOTHING: ContainerAllocation = { devices: [], mounts: [] };

/** The copy, where the device's own file would be, once, however many it asked for. */
export function giveDevice(offer: DeviceOffer): ContainerAllocation {
  const { path, permissions } = offer;
  const device = { containerPath: path, hostPath: copyOfOffer(offer), permissions };
  return { devices: [device], mounts: [] };
}

/** Of each directory what is shown of it, under the path that the dataplane has it by; for reading. */
export function giveDirectories(ids: readonly string[]): ContainerAllocation {
  const mounts = ids.map((id): Mount => {
    const [containerPath, hostPath] = [VHOST_USER_DIR, VHOST_USER_SHOWN_DIR].map((parent) =>
      join(parent, id),
    ) as [string, string]; // of two, two
    return { containerPath, hostPath, readOnly: true };
  });
  return { devices: [], mounts };
}

/** The directories of all pods, to make sockets in. */
export const ALL_DIRECTORIES: ContainerAllocation = {
  devices: [],
  mounts: [
    {
      containerPath: VHOST_USER_DIR,
      hostPath: VHOST_USER_DIR,
      readOnly: false,
    },
  ],
};
