// SPDX-License-Identifier: Apache-2.0
// A file of the node, in a directory that the administrator named.
import type { GuestDisk } from "../../../spec/disks.ts";
import { diskFileOf, volumeDirOf } from "../../../spec/disk-files.ts";
import type { DiskSource } from "../../../spec/disk-source.ts";
import { findHostPath } from "../../../spec/host-path.ts";
import { IMAGE_LIMIT_BYTES, podVolumeName, type DiskPart } from "./disk-part.ts";

/** A hostDisk. The kubelet makes no directory: it would be root's, and the launcher could not write to it. */
export function hostDiskPart(
  disk: GuestDisk,
  source: Extract<DiskSource, { readonly kind: "hostDisk" }>,
): DiskPart {
  const name = podVolumeName(disk.volumeIndex);
  // A path that cannot be taken apart keeps the VM from being started.
  const directory = findHostPath(source.path)?.directory ?? "/";
  const { path } = diskFileOf(disk, "Filesystem");
  const limit = String(source.bytes ?? IMAGE_LIMIT_BYTES);
  const isMade = source.isMade && !disk.readOnly;
  const readOnly = disk.readOnly ? ["readonly"] : [];
  return {
    group: ["file", disk.name, path, limit, ...(isMade ? ["make"] : []), ...readOnly],
    volumes: [{ name, hostPath: { path: directory, type: "Directory" } }],
    mounts: [{ name, mountPath: volumeDirOf(disk.name) }],
    diskMiB: 0,
  };
}
