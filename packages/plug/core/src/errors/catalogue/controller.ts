// SPDX-License-Identifier: Apache-2.0
// Errors of virt-controller.
import type { ErrorEntry } from "../entry.ts";

export const CONTROLLER_ERRORS = {
  CONTROLLER_LAUNCHER_NAME_TAKEN: {
    summary: "the pod {object} already exists and was not created for this VirtualMachineInstance",
    who: "user",
    retry: "on-change",
    http: 409,
  },
  CONTROLLER_MAC_IN_USE: {
    summary:
      "the VM is not started: MAC address {mac} of interface {interface} is in use on network {network} by {owner}; stop that VM, or choose another MAC",
    who: "user",
    retry: "backoff",
    http: 409,
  },
  CONTROLLER_NO_DATA_VOLUMES: {
    summary:
      "the DataVolume {object} cannot be created: this cluster does not serve cdi.kubevirt.io/v1beta1 DataVolumes; install CDI, or remove dataVolumeTemplates, create a PersistentVolumeClaim and name it in the volume",
    who: "environment",
    retry: "on-change",
    http: 409,
  },
} as const satisfies Record<string, ErrorEntry>;
