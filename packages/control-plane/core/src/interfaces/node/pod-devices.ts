// SPDX-License-Identifier: Apache-2.0
// Devices that the kubelet has allocated to pods. Source: kubelet podresources v1.

export interface PodDevices {
  /**
   * Returns the sorted device IDs of a pod by resource, for example `vendor.io/nic`. Returns an empty map if the pod has no
   * devices or the kubelet does not list the pod.
   * @throws AppError with DEVICES_UNKNOWN
   */
  find(pod: {
    readonly namespace: string;
    readonly name: string;
  }): Promise<ReadonlyMap<string, readonly string[]>>;
  /** Returns the allocated device IDs of a resource. A starting pod's devices may be missing. @throws AppError with DEVICES_NOT_LISTED */
  listUsed(resource: string): Promise<ReadonlySet<string>>;
}
