// SPDX-License-Identifier: Apache-2.0
// What does cloud-init hear of the guest itself, and where does it look for what it is told?
import type { JsonObject, VirtualMachineInstance } from "@patchbay/api";
import { hostnameOf } from "./guest-names.ts";

/** The kinds of disks that are made for it. */
export type CloudInitKind = "cloudInitNoCloud" | "cloudInitConfigDrive";

/** Its meta-data. Source: KubeVirt pkg/cloud-init; a config drive's `uuid` is what cloud-init takes for the instance's id. */
export function metaDataOf(vmi: VirtualMachineInstance, kind: CloudInitKind): JsonObject {
  const id = `${vmi.metadata.name}.${vmi.metadata.namespace ?? ""}`;
  const hostname = hostnameOf(vmi);
  return kind === "cloudInitNoCloud"
    ? { "instance-id": id, "local-hostname": hostname }
    : { instance_id: id, hostname, uuid: id };
}

/** Where a kind has its files, and the label by which cloud-init finds the disk. */
interface CloudInitLayout {
  readonly label: string;
  readonly metaData: string;
  readonly userData: string;
  readonly networkData: string;
}

/** Source: cloud-init datasources NoCloud and ConfigDrive. */
export const CLOUD_INIT_LAYOUTS: Readonly<Record<CloudInitKind, CloudInitLayout>> = {
  cloudInitNoCloud: {
    label: "cidata",
    metaData: "meta-data",
    userData: "user-data",
    networkData: "network-config",
  },
  cloudInitConfigDrive: {
    label: "config-2",
    metaData: "openstack/latest/meta_data.json",
    userData: "openstack/latest/user_data",
    networkData: "openstack/latest/network_data.json",
  },
};
