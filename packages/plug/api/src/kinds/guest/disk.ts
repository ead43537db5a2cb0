// SPDX-License-Identifier: Apache-2.0
// Disks as a VM declares them. Source: KubeVirt api/core/v1 schema.go, type Disk.
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
} from "../../fields/notation.ts";

const bus = Type.Optional(
  Type.String({
    description: "Bus: virtio, sata or scsi; sata when absent.",
    ...onlyBuilt(oneOf("", "virtio", "sata", "scsi"), "use virtio, sata or scsi"),
  }),
);
const readonly = Type.Optional(Type.Boolean({ description: "The guest cannot write to it." }));

/** Sizes of a disk's blocks. */
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

/** A disk as the VM declares it, which has its data from the volume of its name. */
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
        { description: "A hard disk; so is one that says nothing of its kind." },
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

/** A disk as the VM declares it. */
export type Disk = Static<typeof DiskSchema>;
