// SPDX-License-Identifier: Apache-2.0
// Which devices does a node offer to launchers? Whether their files are there is their health, and no question of this.
import { names } from "@patchbay/api";

/** A device of the node that all launchers may have at once. */
export interface NodeDevice {
  readonly resource: string;
  /** Its file, on the node and in the launcher. */
  readonly path: string;
  /** Of `r`, `w`, `m`. */
  readonly permissions: string;
  /** How many launchers may have it. */
  readonly count: number;
}

/** More than a node has VMs, so that no device is what a VM waits for. Source: KubeVirt virtualMachineInstancesPerNode. */
const COUNT = 1000;

/** Read and write, and no making of device files. */
const SHARED = { permissions: "rw", count: COUNT };
const KVM: NodeDevice = { resource: names.KVM_RESOURCE, path: "/dev/kvm", ...SHARED };
const TUN: NodeDevice = { resource: names.TUN_RESOURCE, path: "/dev/net/tun", ...SHARED };
const VHOST_NET: NodeDevice = {
  resource: names.VHOST_NET_RESOURCE,
  path: "/dev/vhost-net",
  ...SHARED,
};

/** Without kvm where guests are emulated: a node that cannot do it must not be preferred for saying that it can. */
export function planNodeDevices(useEmulation: boolean): readonly NodeDevice[] {
  return useEmulation ? [TUN, VHOST_NET] : [KVM, TUN, VHOST_NET];
}
