// SPDX-License-Identifier: Apache-2.0
// The network's plugin names a socket, where a process of the node listens, and the device speaks vhost-user there:
// frames go from the guest's memory to that process, and the kernel has no part in them.
import { isDefaultNetwork, type Iface, type Network } from "@patchbay/api";
import { findNicModel } from "@patchbay/domain";
import type { BindingModule, BindingRefusal } from "./binding.ts";

export const VHOST_USER: BindingModule = {
  kind: "vhostuser",
  wiringOf: () => undefined,
  tapOf: () => "",
  // libvirt has no link state for it, and another network would be another socket.
  live: { plug: true, link: false, network: false },
  takesAnyMac: true,
  takesAddresses: false,
  leaseOf: () => undefined,
  addressesOf: "guest",
};

/** What such a NIC cannot have. */
interface Limit {
  readonly field: string;
  readonly message: string;
  readonly isBroken: (iface: Iface, network: Network | undefined) => boolean;
}

const LIMITS: readonly Limit[] = [
  {
    field: "binding",
    message: "speaks vhost-user, which no NIC of the pod's own network does; use bridge",
    isBroken: (_iface, network) => network !== undefined && isDefaultNetwork(network),
  },
  {
    field: "model",
    message: "does not speak vhost-user; use virtio, or leave it out",
    isBroken: ({ model = "" }) => model !== "" && findNicModel(model)?.isMultiQueue !== true,
  },
  {
    field: "state",
    message: "cannot be down: libvirt has no link state for vhost-user; remove the interface",
    isBroken: ({ state }) => state === "down",
  },
  {
    field: "portSecurity",
    message: "cannot be enforced: frames of vhost-user do not pass through the pod",
    isBroken: ({ portSecurity }) => (portSecurity?.mode ?? "Off") !== "Off",
  },
];

/** Why an iface cannot be bound so; undefined: it can. */
export function vhostUserRefusalOf(
  iface: Iface,
  network: Network | undefined,
): BindingRefusal | undefined {
  const limit = LIMITS.find(({ isBroken }) => isBroken(iface, network));
  if (limit === undefined) return undefined;
  const { field, message } = limit;
  return { kind: "refused", field, message, reason: "BindingNotSupported" };
}
