// SPDX-License-Identifier: Apache-2.0
// Errors of virt-controller.
import type { ErrorEntry } from "../entry.ts";

export const CONTROLLER_ERRORS = {
  CONTROLLER_LAUNCHER_NAME_TAKEN: {
    summary:
      "the pod {object} is there already, and was not made for this virtual machine instance",
    who: "user",
    retry: "on-change",
    http: 409,
  },
  CONTROLLER_NO_DATA_VOLUMES: {
    summary:
      "the DataVolume {object} cannot be made: this cluster serves no cdi.kubevirt.io/v1beta1 DataVolumes; install CDI, or take dataVolumeTemplates out, make a PersistentVolumeClaim and name that in the volume",
    who: "environment",
    retry: "on-change",
    http: 409,
  },
} as const satisfies Record<string, ErrorEntry>;
