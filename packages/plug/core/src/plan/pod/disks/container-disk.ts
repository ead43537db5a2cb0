// SPDX-License-Identifier: Apache-2.0
// A disk in an image: what the guest writes goes to an overlay.
import type { GuestDisk } from "../../../spec/disks.ts";
import { diskFileOf, volumeDirOf } from "../../../spec/disk-files.ts";
import type { DiskSource } from "../../../spec/disk-source.ts";
import { fromRoot } from "../../../spec/kernel.ts";
import { diskFilesName, pullPolicyOf } from "../image-files.ts";
import { IMAGE_LIMIT_BYTES, OVERLAY_MIB, type DiskPart } from "./disk-part.ts";

/** Where an image has its disk. Source: KubeVirt container disk workflow. */
const DISK_DIR = "/disk";

/** A containerDisk. */
export function containerDiskPart(
  disk: GuestDisk,
  source: Extract<DiskSource, { readonly kind: "containerDisk" }>,
): DiskPart {
  const path = source.path === undefined ? undefined : fromRoot(source.path);
  const mountPath = volumeDirOf(disk.name);
  const image = `${mountPath}${path ?? DISK_DIR}`;
  const output = diskFileOf(disk, "Filesystem").path;
  return {
    group: ["overlay", disk.name, output, image, String(IMAGE_LIMIT_BYTES)],
    files: {
      name: diskFilesName(disk.volumeIndex),
      image: source.image,
      pullPolicy: pullPolicyOf(source.pullPolicy),
      pullSecret: source.pullSecret,
      mountPath,
      copy: { option: "--disk", files: path === undefined ? [] : [path], mib: OVERLAY_MIB },
    },
    diskMiB: OVERLAY_MIB,
  };
}
