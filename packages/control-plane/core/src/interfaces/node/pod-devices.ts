// SPDX-License-Identifier: Apache-2.0
// Devices that the kubelet has allocated to pods. Source: kubelet podresources v1.

export interface PodDevices {
  /**
   * Device IDs of a pod's containers by resource, for example `vendor.io/nic`. Each list is sorted and has no duplicates.
   * Empty if the pod has none or the kubelet does not know it.
   * @throws AppError with DEVICES_UNKNOWN
   */
  find(pod: {
    readonly namespace: string;
    readonly name: string;
  }): Promise<ReadonlyMap<string, readonly string[]>>;
  /** IDs of a resource's allocated devices. A pod under admission may be missing. @throws AppError with DEVICES_NOT_LISTED */
  listUsed(resource: string): Promise<ReadonlySet<string>>;
}
