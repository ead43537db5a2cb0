// SPDX-License-Identifier: Apache-2.0
// What is offered of one device, and what a container gets that asks for it. Pure.
import { join } from "node:path";
import { AppError } from "@patchbay/core/errors";
import type { AllocateRequest, AllocateResponse, DeviceState } from "./protocol.ts";

/** Where the node's copies of devices are, which launchers get. What is in `/run` is gone after a boot, as devices are. */
const COPIES = "/run/patchbay/devices";

/** A device of the node that many containers may have at once. */
export interface DeviceOffer {
  /** For example `devices.kubevirt.io/kvm`. */
  readonly resource: string;
  /** Its file, on the node and in containers, for example `/dev/net/tun`. */
  readonly path: string;
  /** Of `r`, `w`, `m`. */
  readonly permissions: string;
  /** How many containers of the node may have it. */
  readonly count: number;
}

/** The last part of the resource's name: it names the devices, and the plugin's socket. */
export function nameOfOffer({ resource }: DeviceOffer): string {
  return resource.slice(resource.lastIndexOf("/") + 1);
}

/** On the node, the device that containers get: the same one, and theirs to open. */
export function copyOfOffer(offer: DeviceOffer): string {
  return join(COPIES, nameOfOffer(offer));
}

/** The devices as the kubelet counts them: all are one file, and are healthy while it is there. */
export function listDevices(offer: DeviceOffer, isThere: boolean): readonly DeviceState[] {
  const name = nameOfOffer(offer);
  const health = isThere ? "Healthy" : "Unhealthy";
  return Array.from({ length: offer.count }, (_device, index) => ({
    ID: `${name}-${String(index)}`,
    health,
  }));
}

/**
 * What each container gets: the copy, where the device's own file would be, once, however many it asked for.
 * @throws AppError with DEVICE_UNKNOWN for what was never offered, DEVICE_MISSING when the file is gone
 */
export function allocate(
  offer: DeviceOffer,
  { containerRequests }: AllocateRequest,
  isThere: boolean,
): AllocateResponse {
  const { resource, path, permissions } = offer;
  const known = new Set(listDevices(offer, true).map(({ ID }) => ID));
  const unknown = containerRequests
    .flatMap(({ devicesIds }) => devicesIds)
    .find((id) => !known.has(id));
  if (unknown !== undefined) throw new AppError("DEVICE_UNKNOWN", { resource, device: unknown });
  if (!isThere) throw new AppError("DEVICE_MISSING", { resource, path });
  const device = { containerPath: path, hostPath: copyOfOffer(offer), permissions };
  return {
    containerResponses: containerRequests.map(({ devicesIds }) => ({
      devices: devicesIds.length === 0 ? [] : [device],
    })),
  };
}
