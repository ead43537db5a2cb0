// SPDX-License-Identifier: Apache-2.0
// Disks, volumes and DataVolumes of a VM. Source: KubeVirt api/core/v1 schema.go, types Disk and Volume; CDI
// cdi.kubevirt.io/v1beta1.
import type { Static } from "typebox";
import { Type } from "../../fields/schema.ts";
import {
  feature,
  flag,
  harmless,
  isOff,
  object,
  oneOf,
  onlyBuilt,
  text,
  unbuilt,
  quantity,
  anything,
} from "../../fields/notation.ts";
import { VOLUME_FIELDS } from "../../fields/unacted-fields.ts";
import type { Condition, KubeObject } from "../kubernetes/meta.ts";

const bus = Type.Optional(
  Type.String({
    description: "Bus: virtio, sata or scsi; sata when absent.",
    ...onlyBuilt(oneOf("", "virtio", "sata", "scsi"), "use virtio, sata or scsi"),
  }),
);
const readonly = Type.Optional(Type.Boolean({ description: "The guest cannot write to it." }));

export const BlockSizeSchema = Type.Object(
  {
    custom: Type.Optional(
      Type.Object(
        {
          logical: Type.Optional(
            Type.Integer({ description: "Least that can be read or written, bytes." }),
          ),
          physical: Type.Optional(
            Type.Integer({ description: "Least that is written without being read first, bytes." }),
          ),
          discardGranularity: Type.Optional(
            Type.Integer({ description: "Least that can be given back, bytes." }),
          ),
        },
        { description: "Sizes as given." },
      ),
    ),
    matchVolume: unbuilt(feature("As the volume has them."), {
      unless: isOff,
      hint: "name the sizes in custom",
    }),
  },
  { description: "Sizes of the disk's blocks; 512 bytes when absent." },
);

/** The disk's data comes from the volume with the same name. */
export const DiskSchema = Type.Object(
  {
    name: Type.String({ description: "Name; equals the name of its volume." }),
    volumeName: Type.Optional(
      Type.String({
        description: "Older spelling: the name of the volume, where the disk has another name.",
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
            Type.String({ description: "Where the device is, for example 0000:02:00.0." }),
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
          reservation: unbuilt(flag("Persistent reservations."), { unless: oneOf(false) }),
        },
        { description: "A SCSI device of the node, whose commands the guest sends itself." },
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
      Type.Boolean({ description: "The disk has a thread for itself." }),
    ),
    errorPolicy: Type.Optional(
      Type.String({ description: "stop, ignore, report or enospace; stop when absent." }),
    ),
    io: Type.Optional(Type.String({ description: "native, threads or default." })),
    serial: Type.Optional(Type.String({ description: "Serial number that the guest reads." })),
    shareable: Type.Optional(
      Type.Boolean({
        description:
          "Several VMs may have it at the same time: a claim's or a host's disk, with cache none or directsync.",
      }),
    ),
    tag: unbuilt(text("Tag in the guest's metadata.")),
  },
  { description: "One disk." },
);

export type Disk = Static<typeof DiskSchema>;

const optionalText = (description: string) => Type.Optional(Type.String({ description }));
const optionalFlag = (description: string) => Type.Optional(Type.Boolean({ description }));
/** For example 1Gi, or a number of bytes. Source: Kubernetes resource.Quantity. */
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
const optional = optionalFlag("It need not be there.");

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

/** Source: Kubernetes DownwardAPIVolumeFile. */
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

/** Exactly one member beside the name is set. */
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
          shared: optionalFlag("Several VMs may have it."),
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
        { secretName: optionalText("Name of the Secret."), optional, volumeLabel },
        { description: "Files of a Secret, as a small disk." },
      ),
    ),
    ...VOLUME_FIELDS,
  },
  { description: "One volume." },
);

export type Volume = Static<typeof VolumeSchema>;

/** Source: CDI DataVolumeStatus. */
export interface DataVolumeStatus {
  readonly claimName?: string;
  readonly phase?: string;
  readonly progress?: string;
  readonly conditions?: readonly Condition[];
}

/** CDI, or the node of a standalone machine, creates a claim with the same name. Patchbay reads `spec` on standalone machines only. */
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
