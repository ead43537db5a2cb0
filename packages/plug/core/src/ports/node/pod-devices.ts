// SPDX-License-Identifier: Apache-2.0
// Which devices of the node has its kubelet given to a pod? Source: kubelet podresources v1.

/** The devices of pods, by their kubelet. */
export interface PodDevices {
  /**
   * IDs of the devices that the containers of a pod have, by resource, for example `vendor.io/nic`; each list is sorted and
   * has no ID twice. Empty: it has none, or the kubelet knows no such pod.
   * @throws AppError with DEVICES_UNKNOWN
   */
  find(pod: {
    readonly namespace: string;
    readonly name: string;
  }): Promise<ReadonlyMap<string, readonly string[]>>;
  /**
   * IDs of the devices of a resource that any pod has. A pod that is just being admitted may not be told of yet.
   * @throws AppError with DEVICES_NOT_LISTED
   */
  listUsed(resource: string): Promise<ReadonlySet<string>>;
}
