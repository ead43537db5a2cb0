// SPDX-License-Identifier: Apache-2.0
// The guest's disks in the launcher pod: what is mounted, and how what is not there yet is made.
import { names, type VirtualMachineInstance } from "@patchbay/api";
import { diskFileOf } from "../../../spec/disk-files.ts";
import { disksOf, isDirect, type GuestDisk } from "../../../spec/disks.ts";
import type { ImageFiles } from "../image-files.ts";
import { inMi, joinParts, NO_PARTS, type PartsRequest, type PodParts } from "../parts.ts";
import { claimDiskPart } from "./claim-disk.ts";
import { cloudInitPart } from "./cloud-init.ts";
import { containerDiskPart } from "./container-disk.ts";
import { FORMAT_MIB, type DiskFacts, type DiskPart } from "./disk-part.ts";
import { hostDiskPart } from "./host-disk.ts";
import { prepareContainer } from "./prepare.ts";
import { filesDiskPart } from "./small-disk.ts";

const MIB = 2 ** 20;

function emptyDiskPart(disk: GuestDisk, bytes: number): DiskPart {
  return {
    group: ["empty", disk.name, diskFileOf(disk, "Filesystem").path, String(Math.floor(bytes))],
    diskMiB: Math.ceil(bytes / MIB) + FORMAT_MIB,
  };
}

function partOf(vmi: VirtualMachineInstance, disk: GuestDisk, facts: DiskFacts): DiskPart {
  const { source } = disk;
  if ("claimName" in source) return claimDiskPart(disk, source, facts);
  switch (source.kind) {
    case "containerDisk":
      return containerDiskPart(disk, source);
    case "emptyDisk":
      return emptyDiskPart(disk, source.bytes);
    case "hostDisk":
      return hostDiskPart(disk, source);
    case "cloudInitNoCloud":
    case "cloudInitConfigDrive":
      return cloudInitPart(vmi, disk, source);
    case "configMap":
    case "secret":
    case "downwardAPI":
      return filesDiskPart(disk, source);
  }
}

/** The guest's disks, each with what it needs of the pod. What QEMU is to open past the host's memory is tried before. */
export function planDisks(vmi: VirtualMachineInstance, facts: DiskFacts): readonly DiskPart[] {
  return disksOf(vmi.spec).map((disk) => {
    const part = partOf(vmi, disk, facts);
    return isDirect(disk) ? { ...part, group: ["direct", ...part.group] } : part;
  });
}

/** Images whose files are disks. */
export function diskImagesOf(parts: readonly DiskPart[]): readonly ImageFiles[] {
  return parts.flatMap(({ files }) => files ?? []);
}

/**
 * What the guest's disks need of the pod, beside the files of images; `imageMounts` is where those are. What makes disks
 * is the last init container.
 */
export function diskPartsOf(
  parts: readonly DiskPart[],
  imageMounts: PodParts["mounts"],
  request: PartsRequest,
): PodParts {
  if (parts.length === 0) return NO_PARTS;
  const diskMiB = parts.reduce((sum, part) => sum + part.diskMiB, 0);
  const own = joinParts(
    parts.map(({ volumes = [], mounts = [], devices = [] }) => ({
      ...NO_PARTS,
      volumes,
      mounts,
      devices,
    })),
  );
  const volumeMounts = [...imageMounts, ...own.mounts];
  const shared = { volumeMounts, volumeDevices: own.devices };
  return {
    ...own,
    volumes: [
      { name: names.DISKS_VOLUME, emptyDir: { sizeLimit: inMi(diskMiB + FORMAT_MIB) } },
      ...own.volumes,
    ],
    mounts: [{ name: names.DISKS_VOLUME, mountPath: names.DISKS_DIR }, ...own.mounts],
    initContainers: [prepareContainer(parts, shared, request)],
    diskMiB: diskMiB + FORMAT_MIB,
  };
}
