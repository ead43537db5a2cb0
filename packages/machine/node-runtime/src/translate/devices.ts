// SPDX-License-Identifier: Apache-2.0
// Which devices, and which directories of sockets, does a container get for the resources that it asks for?
import { names, type Container } from "@patchbay/api";
import type { ContainerDevice, ContainerMount } from "@patchbay/core/ports";

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

/** Whether a container asks for sockets. */
export function asksForSockets({ resources }: Container): boolean {
  return resources?.limits?.[names.VHOST_USER_RESOURCE] !== undefined;
}

/** What is shown of the pod's directory, which is called by its UID, for a container that asks for sockets. */
export function socketMountsOf(container: Container, podUid: string): readonly ContainerMount[] {
  if (!asksForSockets(container)) return [];
  return [
    {
      containerPath: `${names.VHOST_USER_DIR}/${podUid}`,
      hostPath: `${names.VHOST_USER_SHOWN_DIR}/${podUid}`,
      readonly: true,
      propagation: "PRIVATE",
    },
  ];
}
