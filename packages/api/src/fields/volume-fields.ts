// SPDX-License-Identifier: Apache-2.0
// Where disks come from: not acted on. Source: KubeVirt api/core/v1 schema.go, type Volume.
import {
  anything,
  flag,
  harmless,
  integer,
  list,
  object,
  quantity,
  reference,
  text,
  unbuilt,
  type JsonSchema,
} from "./notation.ts";

const claimName = text("Name of the claim, in the VM's namespace.");
const hotpluggable = flag("It can be unplugged while the guest runs.");
const readOnly = flag("It is mounted read-only.");
const volumeLabel = text("Label of the disk's file system.");
const optional = flag("It need not be there.");

/** Source: Kubernetes PersistentVolumeClaimVolumeSource. */
const CLAIM: Readonly<Record<string, JsonSchema>> = { claimName, readOnly };

function cloudInit(what: string): JsonSchema {
  return object(what, {
    userData: text("User data as text."),
    userDataBase64: text("User data, base64."),
    secretRef: reference("Secret with the user data."),
    networkData: text("Network data as text."),
    networkDataBase64: text("Network data, base64."),
    networkDataSecretRef: reference("Secret with the network data."),
  });
}

/** Source: Kubernetes DownwardAPIVolumeFile. */
const DOWNWARD_FILE = object(
  "One file.",
  {
    path: text("Path of the file."),
    mode: integer("Permissions of the file."),
    fieldRef: object("A field of the pod.", {
      apiVersion: text("Version of the field's path."),
      fieldPath: text("Path of the field."),
    }),
    resourceFieldRef: anything("A resource of the container."),
  },
  ["path"],
);

const IMAGE_DISK: Readonly<Record<string, JsonSchema>> = {
  image: text("Image."),
  imagePullPolicy: text("Always, IfNotPresent or Never."),
  imagePullSecret: text("Secret for pulling the image."),
  path: text("Path of the disk in the image."),
};

const VOLUME = object(
  "One volume.",
  {
    name: text("Name of the volume."),
    cloudInitConfigDrive: cloudInit("cloud-init's data on a config drive."),
    cloudInitNoCloud: cloudInit("cloud-init's data for NoCloud."),
    configMap: object("Files of a ConfigMap.", {
      name: text("Name of the ConfigMap."),
      optional,
      volumeLabel,
    }),
    containerDisk: object("A disk in an image.", IMAGE_DISK, ["image"]),
    registryDisk: object("Older name of containerDisk.", IMAGE_DISK, ["image"]),
    containerPath: object("A path of the launcher.", { path: text("Path."), readOnly }, ["path"]),
    dataVolume: object("A DataVolume of CDI.", { name: text("Name."), hotpluggable }, ["name"]),
    downwardAPI: object("Fields of the pod as files.", {
      fields: list("The files.", DOWNWARD_FILE),
      volumeLabel,
    }),
    downwardMetrics: object("Metrics of the node for the guest."),
    emptyDisk: object("An empty disk that ends with the VM.", { capacity: quantity("Size.") }, [
      "capacity",
    ]),
    ephemeral: object("A claim whose changes are forgotten.", {
      persistentVolumeClaim: object("The claim.", CLAIM, ["claimName"]),
    }),
    hostDisk: object(
      "A file of the node.",
      {
        path: text("Path of the file."),
        type: text("Disk or DiskOrCreate."),
        capacity: quantity("Size of a file that is made."),
        shared: flag("Several VMs may have it."),
      },
      ["path", "type"],
    ),
    memoryDump: object("A dump of the guest's memory.", { ...CLAIM, hotpluggable }, ["claimName"]),
    persistentVolumeClaim: object("A claim.", { ...CLAIM, hotpluggable }, ["claimName"]),
    secret: object("Files of a Secret.", {
      secretName: text("Name of the Secret."),
      optional,
      volumeLabel,
    }),
    serviceAccount: object("A service account's token.", {
      serviceAccountName: text("Name of the account."),
    }),
    sysprep: object("Answers for the setup of Windows.", {
      configMap: reference("ConfigMap with the answers."),
      secret: reference("Secret with the answers."),
    }),
  },
  ["name"],
);

/** Of `spec` of a VMI: disks and the files behind them. */
export const VOLUME_FIELDS = {
  volumes: unbuilt(list("Where disks and file systems come from.", VOLUME)),
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
