// SPDX-License-Identifier: Apache-2.0
// Where disks come from, as a VM declares it. Source: KubeVirt api/core/v1 schema.go, type Volume.
import type { Static } from "typebox";
import { Type } from "../../fields/schema.ts";
import { harmless, quantity } from "../../fields/notation.ts";
import { VOLUME_FIELDS } from "../../fields/volume-fields.ts";

const text = (description: string) => Type.Optional(Type.String({ description }));
const flag = (description: string) => Type.Optional(Type.Boolean({ description }));
/** An amount, for example 1Gi, or a number of bytes. Source: Kubernetes resource.Quantity. */
const size = (description: string) => Type.Unsafe<string | number>(quantity(description));
const secretNamed = (description: string) =>
  Type.Optional(
    Type.Object({ name: text("Name of the object, in the VM's namespace.") }, { description }),
  );

const claimName = Type.String({ description: "Name of the claim, in the VM's namespace." });
const readOnly = flag("The claim is mounted read-only, and the guest cannot write to the disk.");
const hotpluggable = harmless({
  type: "boolean",
  description: "It can be unplugged while the guest runs.",
});
const volumeLabel = text("Label of the disk's file system.");
const optional = flag("It need not be there.");

const cloudInit = (description: string) =>
  Type.Optional(
    Type.Object(
      {
        userData: text("User data as text."),
        userDataBase64: text("User data, base64."),
        secretRef: secretNamed("Secret with the user data, key userdata."),
        networkData: text("Network data as text."),
        networkDataBase64: text("Network data, base64."),
        networkDataSecretRef: secretNamed("Secret with the network data, key networkdata."),
      },
      { description },
    ),
  );

const imageDisk = (description: string) =>
  Type.Optional(
    Type.Object(
      {
        image: Type.String({ description: "Image." }),
        imagePullPolicy: text("Always, IfNotPresent or Never."),
        imagePullSecret: text("Secret for pulling the image."),
        path: text("Path of the disk in the image; the first file below /disk when absent."),
      },
      { description },
    ),
  );

/** Source: Kubernetes DownwardAPIVolumeFile. */
const DownwardFileSchema = Type.Object(
  {
    path: Type.String({ description: "Path of the file." }),
    mode: Type.Optional(Type.Integer({ description: "Permissions of the file." })),
    fieldRef: Type.Optional(
      Type.Object(
        {
          apiVersion: text("Version of the field's path."),
          fieldPath: Type.String({ description: "Path of the field." }),
        },
        { description: "A field of the pod." },
      ),
    ),
    resourceFieldRef: Type.Optional(
      Type.Unsafe<{
        readonly resource: string;
        readonly containerName?: string;
        readonly divisor?: string;
      }>({
        type: "object",
        description: "A resource of the container.",
        "x-kubernetes-preserve-unknown-fields": true,
      }),
    ),
  },
  { description: "One file." },
);

/** A volume of a VM; exactly one of its members beside the name. */
export const VolumeSchema = Type.Object(
  {
    name: Type.String({ description: "Name of the volume." }),
    cloudInitConfigDrive: cloudInit("cloud-init's data on a config drive."),
    cloudInitNoCloud: cloudInit("cloud-init's data for NoCloud."),
    configMap: Type.Optional(
      Type.Object(
        { name: text("Name of the ConfigMap."), optional, volumeLabel },
        { description: "Files of a ConfigMap, as a small disk." },
      ),
    ),
    containerDisk: imageDisk("A disk in an image; what is written to it is forgotten."),
    registryDisk: imageDisk("Older name of containerDisk."),
    dataVolume: Type.Optional(
      Type.Object(
        { name: Type.String({ description: "Name, which is its claim's too." }), hotpluggable },
        { description: "The claim of a DataVolume of CDI." },
      ),
    ),
    downwardAPI: Type.Optional(
      Type.Object(
        {
          fields: Type.Optional(Type.Array(DownwardFileSchema, { description: "The files." })),
          volumeLabel,
        },
        { description: "Fields of the pod as files, as a small disk." },
      ),
    ),
    emptyDisk: Type.Optional(
      Type.Object(
        { capacity: size("Size.") },
        { description: "An empty disk that ends with the VMI." },
      ),
    ),
    ephemeral: Type.Optional(
      Type.Object(
        {
          persistentVolumeClaim: Type.Optional(
            Type.Object({ claimName, readOnly }, { description: "The claim, which is only read." }),
          ),
        },
        { description: "A claim with a disk whose changes are forgotten." },
      ),
    ),
    hostDisk: Type.Optional(
      Type.Object(
        {
          path: Type.String({ description: "Path of the file." }),
          type: Type.String({
            description: "Disk, or DiskOrCreate: it is made when it is not there.",
          }),
          capacity: Type.Optional(size("Size of a file that is made.")),
          shared: flag("Several VMs may have it."),
        },
        { description: "A file of the node." },
      ),
    ),
    persistentVolumeClaim: Type.Optional(
      Type.Object(
        { claimName, readOnly, hotpluggable },
        { description: "A claim: its file disk.img, or its device." },
      ),
    ),
    secret: Type.Optional(
      Type.Object(
        { secretName: text("Name of the Secret."), optional, volumeLabel },
        { description: "Files of a Secret, as a small disk." },
      ),
    ),
    ...VOLUME_FIELDS,
  },
  { description: "One volume." },
);

/** A volume as the VM declares it. */
export type Volume = Static<typeof VolumeSchema>;
