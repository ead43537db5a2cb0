// SPDX-License-Identifier: Apache-2.0
// What does a node offer to pods? Whether there is the file of a device is its health, and no question of this.
import { names, offersDataplane, usesEmulation, type KubeVirt } from "@patchbay/api";

/** What pods of the node may ask for. */
interface Offered {
  readonly resource: string;
  /** How many there are of it. */
  readonly count: number;
}

/** A device of the node that all launchers may have at once. */
interface NodeDevice extends Offered {
  readonly kind: "device";
  /** Its file, on the node and in the launcher. */
  readonly path: string;
  /** Of `r`, `w`, `m`. */
  readonly permissions: string;
}

/** Directories of sockets of vhost-user: one that is one pod's, or all of them, for the dataplane. */
interface NodeSockets extends Offered {
  readonly kind: "sockets" | "all-sockets";
}

/** One of the two. */
export type NodeOffer = NodeDevice | NodeSockets;

/** More than a node has VMs, so that no device is what a VM waits for. Source: KubeVirt virtualMachineInstancesPerNode. */
const COUNT = 1000;

/** Read and write, and no making of device files. */
const SHARED = { kind: "device", permissions: "rw", count: COUNT } as const;
const KVM: NodeDevice = { resource: names.KVM_RESOURCE, path: "/dev/kvm", ...SHARED };
const TUN: NodeDevice = { resource: names.TUN_RESOURCE, path: "/dev/net/tun", ...SHARED };
const VHOST_NET: NodeDevice = {
  resource: names.VHOST_NET_RESOURCE,
  path: "/dev/vhost-net",
  ...SHARED,
};
const SOCKETS: NodeSockets = {
  kind: "sockets",
  resource: names.VHOST_USER_RESOURCE,
  count: COUNT,
};
/** One process serves the sockets of a node. */
const ALL_SOCKETS: NodeSockets = {
  kind: "all-sockets",
  resource: names.VHOST_USER_DATAPLANE_RESOURCE,
  count: 1,
};

/**
 * Without kvm where guests are emulated: a node that cannot do it must not be preferred for saying that it can. With all
 * sockets only where an administrator has said so: whoever has them has the traffic of all such NICs.
 */
export function planNodeOffers(kubevirt: KubeVirt | undefined): readonly NodeOffer[] {
  return [
    ...(usesEmulation(kubevirt) ? [] : [KVM]),
    TUN,
    VHOST_NET,
    SOCKETS,
    ...(offersDataplane(kubevirt) ? [ALL_SOCKETS] : []),
  ];
}
