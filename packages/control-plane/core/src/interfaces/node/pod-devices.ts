// SPDX-License-Identifier: Apache-2.0
// Devices that the kubelet has allocated to pods. Source: kubelet podresources v1.

export interface PodDevices {
  /**
   * Returns the device IDs of a pod's containers by resource, for example `vendor.io/nic`. Each list is sorted and has no
   * duplicates. The map is empty if the pod has no devices or the kubelet does not know the pod.
   * @throws AppError with DEVICES_UNKNOWN
   */
  find(pod: {
    readonly namespace: string;
    readonly name: string;
  }): Promise<ReadonlyMap<string, readonly string[]>>;
  /** Returns the IDs of a resource's allocated devices, perhaps without those of a pod under admission. @throws AppError with DEVICES_NOT_LISTED */
  listUsed(resource: string): Promise<ReadonlySet<string>>;
}
