// SPDX-License-Identifier: Apache-2.0
// What does cloud-init hear of the guest itself?
import type { JsonObject, VirtualMachineInstance } from "@patchbay/api";
import { hostnameOf } from "./hostname.ts";

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
