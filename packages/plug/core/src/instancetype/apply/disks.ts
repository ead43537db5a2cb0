// SPDX-License-Identifier: Apache-2.0
// What a preference makes of disks, those of volumes that no disk names with them. Source: KubeVirt
// pkg/instancetype/preference/apply/disk.go, which has a disk for each volume by then.
import { type Disk, type PreferenceSpec } from "@patchbay/api";
import { isUnsaid, said } from "./said.ts";

type Devices = NonNullable<PreferenceSpec["devices"]>;

function withBus<T extends { readonly bus?: string }>(device: T, bus: string | undefined): T {
  return isUnsaid(device.bus) && bus !== undefined && bus !== "" ? { ...device, bus } : device;
}

function hardDisk(declared: Disk, likes: Devices): Disk {
  const disk = withBus(declared.disk ?? {}, likes.preferredDiskBus);
  const open = (name: "blockSize" | "cache" | "io", liked: unknown): unknown =>
    isUnsaid(declared[name]) && !isUnsaid(liked) ? liked : undefined;
  const ownThread = disk.bus === "virtio" ? likes.preferredDiskDedicatedIoThread : undefined;
  return {
    ...declared,
    disk,
    // Each is of the type of the field that it stands for.
    ...(said({
      blockSize: open("blockSize", likes.preferredDiskBlockSize),
      cache: open("cache", likes.preferredDiskCache),
      io: open("io", likes.preferredDiskIO),
      dedicatedIOThread: declared.dedicatedIOThread ?? ownThread,
    }) as Partial<Disk>),
  };
}

/** A disk that does not say how it is joined to the machine, or cached, is as the preference says. */
export function preferredDisk(disk: Disk, likes: Devices): Disk {
  if (disk.cdrom !== undefined && disk.disk === undefined) {
    return { ...disk, cdrom: withBus(disk.cdrom, likes.preferredCdromBus) };
  }
  if (disk.lun !== undefined && disk.disk === undefined) {
    return { ...disk, lun: withBus(disk.lun, likes.preferredLunBus) };
  }
  return disk.floppy === undefined ? hardDisk(disk, likes) : disk;
}
