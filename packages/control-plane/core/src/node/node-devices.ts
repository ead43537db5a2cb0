// SPDX-License-Identifier: Apache-2.0
// Devices that a node offers to pods. A missing device file is a health issue and does not matter here.
import { names, isDataplaneEnabled, usesEmulation, type KubeVirt } from "@patchbay/api";

interface Offered {
  readonly resource: string;
  readonly count: number;
}

interface NodeDevice extends Offered {
  readonly kind: "device";
  readonly path: string;
  /** Letters `r`, `w` and `m`, for read, write and mknod. */
  readonly permissions: string;
}

/** vhost-user socket directories: `sockets` for one pod, `all-sockets` for the dataplane. */
interface NodeSockets extends Offered {
  readonly kind: "sockets" | "all-sockets";
}

export type NodeOffer = NodeDevice | NodeSockets;

/** Offered count, above the number of VMs on a node so that no VM waits. Source: KubeVirt virtualMachineInstancesPerNode. */
const DEVICE_COUNT = 1000;

const SHARED_DEVICE = { kind: "device", permissions: "rw", count: DEVICE_COUNT } as const;
const KVM: NodeDevice = { resource: names.KVM_RESOURCE, path: "/dev/kvm", ...SHARED_DEVICE };
const TUN: NodeDevice = { resource: names.TUN_RESOURCE, path: "/dev/net/tun", ...SHARED_DEVICE };
const VHOST_NET: NodeDevice = {
  resource: names.VHOST_NET_RESOURCE,
  path: "/dev/vhost-net",
  ...SHARED_DEVICE,
};
const SOCKETS: NodeSockets = {
  kind: "sockets",
  resource: names.VHOST_USER_RESOURCE,
  count: DEVICE_COUNT,
};
/** One dataplane process serves all sockets of a node. */
const ALL_SOCKETS: NodeSockets = {
  kind: "all-sockets",
  resource: names.VHOST_USER_DATAPLANE_RESOURCE,
  count: 1,
};

/**
 * Returns the node's offers. Omits KVM under emulation, so that the scheduler does not prefer nodes that offer it.
 * Offers all sockets only if an administrator allows it, because they carry the traffic of all vhost-user NICs.
 */
export function planNodeOffers(kubevirt: KubeVirt | undefined): readonly NodeOffer[] {
  return [
    ...(usesEmulation(kubevirt) ? [] : [KVM]),
    TUN,
    VHOST_NET,
    SOCKETS,
    ...(isDataplaneEnabled(kubevirt) ? [ALL_SOCKETS] : []),
  ];
}
