// SPDX-License-Identifier: Apache-2.0
// Meta-data for cloud-init, and the file layout of its disks.
import type { VirtualMachineInstance } from "@patchbay/api";
import type { JsonObject } from "@patchbay/api/json";
import { buildHostname } from "./guest-names.ts";

export type CloudInitKind = "cloudInitNoCloud" | "cloudInitConfigDrive";

/** Builds the meta-data. cloud-init uses `uuid` of a config drive as instance ID. Source: KubeVirt pkg/cloud-init. */
export function buildMetaData(vmi: VirtualMachineInstance, kind: CloudInitKind): JsonObject {
  const id = `${vmi.metadata.name}.${vmi.metadata.namespace ?? ""}`;
  const hostname = buildHostname(vmi);
  return kind === "cloudInitNoCloud"
    ? { "instance-id": id, "local-hostname": hostname }
    : { instance_id: id, hostname, uuid: id };
}

interface CloudInitLayout {
  readonly label: string;
  readonly metaData: string;
  readonly userData: string;
  readonly networkData: string;
}

/** Volume labels and file names by kind of disk. Source: cloud-init datasources NoCloud and ConfigDrive. */
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
