// SPDX-License-Identifier: Apache-2.0
// Volumes that are not acted on. Source: KubeVirt api/core/v1 schema.go, type Volume.
import { flag, harmless, list, object, reference, text, unbuilt } from "./notation.ts";

const claimName = text("Name of the claim, in the VM's namespace.");
const readOnly = flag("It is mounted read-only.");

/** Of a volume, beside the fields that are acted on. */
export const VOLUME_FIELDS = {
  containerPath: unbuilt(
    object("A path of the launcher.", { path: text("Path."), readOnly }, ["path"]),
  ),
  downwardMetrics: unbuilt(object("Metrics of the node for the guest.")),
  memoryDump: unbuilt(
    object(
      "A dump of the guest's memory.",
      { claimName, readOnly, hotpluggable: flag("It can be unplugged while the guest runs.") },
      ["claimName"],
    ),
  ),
  serviceAccount: unbuilt(
    object("A service account's token.", { serviceAccountName: text("Name of the account.") }),
  ),
  sysprep: unbuilt(
    object("Answers for the setup of Windows.", {
      configMap: reference("ConfigMap with the answers."),
      secret: reference("Secret with the answers."),
    }),
  ),
};

/** Of `spec` of a VMI, beside the volumes. */
export const UTILITY_VOLUME_FIELDS = {
  utilityVolumes: harmless(
    list(
      "Volumes of the launcher that the guest does not see.",
      object(
        "One volume.",
        {
          name: text("Name of the volume."),
          claimName,
          readOnly,
          type: text("What it is for."),
        },
        ["name", "claimName"],
      ),
    ),
  ),
};
