// SPDX-License-Identifier: Apache-2.0
// Disks, volumes and DataVolumes of a VM. Source: KubeVirt api/core/v1 schema.go, types Disk and Volume; CDI
// cdi.kubevirt.io/v1beta1.
import type { Static } from "typebox";
import { Type } from "../../fields/schema.ts";
import {
  feature,
  flag,
  harmless,
  isFeatureOff,
  object,
  oneOf,
  supportedValues,
  text,
  unbuilt,
  quantity,
  anything,
} from "../../fields/notation.ts";
import { UNSUPPORTED_VOLUME_FIELDS } from "../../fields/unacted-fields.ts";
import type { Condition, KubeObject } from "../kubernetes/meta.ts";

const bus = Type.Optional(
  Type.String({
    description: "Bus: virtio, sata or scsi; sata when absent.",
    ...supportedValues(oneOf("", "virtio", "sata", "scsi"), "use virtio, sata or scsi"),
  }),
);
const readonly = Type.Optional(Type.Boolean({ description: "The guest cannot write to it." }));

export const BlockSizeSchema = Type.Object(
  {
    custom: Type.Optional(
      Type.Object(
        {
          logical: Type.Optional(
            Type.Integer({ description: "Smallest unit of reads and writes, in bytes." }),
          ),
          physical: Type.Optional(
            Type.Integer({
              description: "Smallest unit of writes that needs no read first, in bytes.",
            }),
          ),
          discardGranularity: Type.Optional(
            Type.Integer({ description: "Smallest unit that can be discarded, in bytes." }),
          ),
        },
        { description: "Explicit sizes." },
      ),
    ),
    matchVolume: unbuilt(feature("Uses the volume's block sizes."), {
      isDefault: isFeatureOff,
      hint: "name the sizes in custom",
    }),
  },
  { description: "Sizes of the disk's blocks; 512 bytes when absent." },
);

/** Schema of a disk, whose data comes from the volume of the same name. */
export const DiskSchema = Type.Object(
  {
    name: Type.String({ description: "Name; equals the name of its volume." }),
    volumeName: Type.Optional(
      Type.String({
        description: "Older name of the field: the volume's name, if the disk has another name.",
      }),
    ),
    bootOrder: Type.Optional(
      Type.Integer({ minimum: 1, description: "Place in the order of boot devices, from 1." }),
    ),
    disk: Type.Optional(
      Type.Object(
        {
          bus,
          readonly,
          pciAddress: Type.Optional(
            Type.String({ description: "PCI address, for example 0000:02:00.0." }),
          ),
        },
        { description: "A hard disk; the default kind." },
      ),
    ),
    cdrom: Type.Optional(
      Type.Object(
        {
          bus,
          readonly: Type.Optional(
            Type.Boolean({ description: "The guest cannot write to it; true when absent." }),
          ),
          tray: Type.Optional(Type.String({ description: "open or closed; closed when absent." })),
        },
        { description: "A CD-ROM." },
      ),
    ),
    floppy: unbuilt(
      object("A floppy disk; taken out of KubeVirt.", {
        readonly: flag("The guest cannot write to it."),
        tray: text("open or closed."),
      }),
    ),
    lun: Type.Optional(
      Type.Object(
        {
          bus,
          readonly,
          reservation: unbuilt(flag("Persistent reservations."), { isDefault: oneOf(false) }),
        },
        { description: "A SCSI device of the node, to which the guest sends SCSI commands." },
      ),
    ),
    blockSize: Type.Optional(BlockSizeSchema),
    cache: Type.Optional(
      Type.String({
        description:
          "none when absent, which needs direct I/O; writethrough, writeback or directsync.",
      }),
    ),
    changedBlockTracking: harmless(flag("Changed blocks are recorded for backups.")),
    dedicatedIOThread: Type.Optional(
      Type.Boolean({ description: "The disk has a dedicated I/O thread." }),
    ),
    errorPolicy: Type.Optional(
      Type.String({ description: "stop, ignore, report or enospace; stop when absent." }),
    ),
    io: Type.Optional(Type.String({ description: "native, threads or default." })),
    serial: Type.Optional(Type.String({ description: "Serial number that the guest reads." })),
    shareable: Type.Optional(
      Type.Boolean({
        description:
          "Several VMs may use the disk at the same time; it needs a claim or a host disk, and cache none or directsync.",
      }),
    ),
    tag: unbuilt(text("Tag in the guest's metadata.")),
  },
  { description: "One disk." },
);

export type Disk = Static<typeof DiskSchema>;

const optionalText = (description: string) => Type.Optional(Type.String({ description }));
const optionalFlag = (description: string) => Type.Optional(Type.Boolean({ description }));
/** Builds the schema of a size: a number of bytes, or a quantity such as 1Gi. Source: Kubernetes resource.Quantity. */
const size = (description: string) => Type.Unsafe<string | number>(quantity(description));
const secretNamed = (description: string) =>
  Type.Optional(
    Type.Object(
      { name: optionalText("Name of the object, in the VM's namespace.") },
      { description },
    ),
  );

const claimName = Type.String({ description: "Name of the claim, in the VM's namespace." });
const readOnly = optionalFlag(
  "The claim is mounted read-only, and the guest cannot write to the disk.",
);
const hotpluggable = harmless({
  type: "boolean",
  description: "It can be unplugged while the guest runs.",
});
const volumeLabel = optionalText("Label of the disk's file system.");
const optional = optionalFlag("The VM also starts without the object.");

const cloudInit = (description: string) =>
  Type.Optional(
    Type.Object(
      {
        userData: optionalText("User data as text."),
        userDataBase64: optionalText("User data, base64."),
        secretRef: secretNamed("Secret with the user data, key userdata."),
        networkData: optionalText("Network data as text."),
        networkDataBase64: optionalText("Network data, base64."),
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
        imagePullPolicy: optionalText("Always, IfNotPresent or Never."),
        imagePullSecret: optionalText("Secret for pulling the image."),
        path: optionalText(
          "Path of the disk in the image; the first file below /disk when absent.",
        ),
      },
      { description },
    ),
  );

/** Schema of a file that contains a field of the pod. Source: Kubernetes DownwardAPIVolumeFile. */
const DownwardFileSchema = Type.Object(
  {
    path: Type.String({ description: "Path of the file." }),
    mode: Type.Optional(Type.Integer({ description: "Permissions of the file." })),
    fieldRef: Type.Optional(
      Type.Object(
        {
          apiVersion: optionalText("Version of the field's path."),
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

/** Schema of a volume. Exactly one field is set besides `name`. */
export const VolumeSchema = Type.Object(
  {
    name: Type.String({ description: "Name of the volume." }),
    cloudInitConfigDrive: cloudInit("cloud-init's data on a config drive."),
    cloudInitNoCloud: cloudInit("cloud-init's data for NoCloud."),
    configMap: Type.Optional(
      Type.Object(
        { name: optionalText("Name of the ConfigMap."), optional, volumeLabel },
        { description: "Files of a ConfigMap, as a small disk." },
      ),
    ),
    containerDisk: imageDisk("A disk in an image; writes are lost when the VMI ends."),
    registryDisk: imageDisk("Older name of containerDisk."),
    dataVolume: Type.Optional(
      Type.Object(
        {
          name: Type.String({ description: "Name of the DataVolume and of its claim." }),
          hotpluggable,
        },
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
        { description: "An empty disk that is deleted with the VMI." },
      ),
    ),
    ephemeral: Type.Optional(
      Type.Object(
        {
          persistentVolumeClaim: Type.Optional(
            Type.Object(
              { claimName, readOnly },
              { description: "The claim, which stays unchanged." },
            ),
          ),
        },
        { description: "A disk of a claim; writes are lost when the VMI ends." },
      ),
    ),
    hostDisk: Type.Optional(
      Type.Object(
        {
          path: Type.String({ description: "Path of the file." }),
          type: Type.String({
            description: "Disk, or DiskOrCreate to create a missing file.",
          }),
          capacity: Type.Optional(size("Size of a created file.")),
          shared: optionalFlag("Several VMs may use the file."),
        },
        { description: "A file of the node." },
      ),
    ),
    persistentVolumeClaim: Type.Optional(
      Type.Object(
        { claimName, readOnly, hotpluggable },
        { description: "The file disk.img of a claim, or its block device." },
      ),
    ),
    secret: Type.Optional(
      Type.Object(
        { secretName: optionalText("Name of the Secret."), optional, volumeLabel },
        { description: "Files of a Secret, as a small disk." },
      ),
    ),
    ...UNSUPPORTED_VOLUME_FIELDS,
  },
  { description: "One volume." },
);

export type Volume = Static<typeof VolumeSchema>;

/** Status of a DataVolume. Source: CDI DataVolumeStatus. */
export interface DataVolumeStatus {
  readonly claimName?: string;
  readonly phase?: string;
  readonly progress?: string;
  readonly conditions?: readonly Condition[];
}

/** Request for a PersistentVolumeClaim of the same name. On a standalone machine, Patchbay reads `spec`. In a cluster, CDI reads `spec`. */
export interface DataVolume extends KubeObject {
  readonly spec: Readonly<Record<string, unknown>>;
  readonly status?: DataVolumeStatus;
}

export interface TemplateMetadata {
  readonly name?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

export const DataVolumeTemplateSchema = Type.Object(
  {
    apiVersion: harmless(text("API version.")),
    kind: harmless(text("Kind.")),
    metadata: Type.Optional(
      Type.Unsafe<TemplateMetadata>(
        anything("Name, labels and annotations of the DataVolume, which is in the VM's namespace."),
      ),
    ),
    spec: Type.Unsafe<Readonly<Record<string, unknown>>>(anything("What it is made of.")),
    status: harmless(anything("Not used.")),
  },
  { description: "One template." },
);
