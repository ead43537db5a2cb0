// SPDX-License-Identifier: Apache-2.0
// Devices that a node offers to pods, whether or not the device files exist.
import { names, isDataplaneEnabled, usesEmulation, type KubeVirt } from "@patchbay/api";

interface Offered {
  readonly resource: string;
  readonly count: number;
}

interface NodeDevice extends Offered {
  readonly kind: "device";
  readonly path: string;
  /** Letters `r`, `w` and `m`, which permit read, write and mknod. */
  readonly permissions: string;
}

/** Directories of vhost-user sockets. `sockets` gives a pod its own directory; `all-sockets` gives the dataplane all directories. */
interface NodeSockets extends Offered {
  readonly kind: "sockets" | "all-sockets";
}

export type NodeOffer = NodeDevice | NodeSockets;

/** Number of devices of each kind on a node. Must exceed the node's number of VMs. Source: KubeVirt virtualMachineInstancesPerNode. */
const DEVICE_COUNT = 1000;

const SHARED_DEVICE = { kind: "device", permissions: "rw", count: DEVICE_COUNT } as const;
const KVM: NodeDevice = { resource: names.KVM_RESOURCE, path: "/dev/kvm", ...SHARED_DEVICE };
const TUN: NodeDevice = { resource: names.TUN_RESOURCE, path: "/dev/net/tun", ...SHARED_DEVICE };
const VHOST_NET: NodeDevice = {
  resource: names.VHOST_NET_RESOURCE,
  path: "/dev/vhost-net",
  ...SHARED_DEVICE,
};
const POD_SOCKETS: NodeSockets = {
  kind: "sockets",
  resource: names.VHOST_USER_RESOURCE,
  count: DEVICE_COUNT,
};
const ALL_SOCKETS: NodeSockets = {
  kind: "all-sockets",
  resource: names.VHOST_USER_DATAPLANE_RESOURCE,
  count: 1,
};

/**
 * Returns the devices that a node offers. Offers `all-sockets` only if an administrator allows it, because a pod with
 * this device can read the traffic of all vhost-user NICs.
 */
export function planNodeOffers(kubevirt: KubeVirt | undefined): readonly NodeOffer[] {
  return [
    ...(usesEmulation(kubevirt) ? [] : [KVM]),
    TUN,
    VHOST_NET,
    POD_SOCKETS,
    ...(isDataplaneEnabled(kubevirt) ? [ALL_SOCKETS] : []),
  ];
}
