// SPDX-License-Identifier: Apache-2.0
// Which devices does a container get for the resources that it asks for?
import { names, type Container } from "@patchbay/api";
import type { ContainerDevice } from "@patchbay/core/ports";

/** The device of each resource. Source: KubeVirt device plugin. */
export const DEVICES: readonly (readonly [resource: string, device: string])[] = [
  [names.KVM_RESOURCE, "/dev/kvm"],
  [names.TUN_RESOURCE, "/dev/net/tun"],
  [names.VHOST_NET_RESOURCE, "/dev/vhost-net"],
];

/** The devices in the order of {@link DEVICES}. */
export function devicesOf({ resources }: Container): readonly ContainerDevice[] {
  const limits = resources?.limits ?? {};
  return DEVICES.filter(([resource]) => limits[resource] !== undefined).map(([, path]) => {
    return { containerPath: path, hostPath: path, permissions: "rw" };
  });
}
