// SPDX-License-Identifier: Apache-2.0
// A disk on a claim, written to as it is, or under an overlay.
import type { PodVolume } from "@patchbay/api";
import type { GuestDisk } from "../../../spec/disks.ts";
import {
  claimFileOf,
  diskFileOf,
  volumeDeviceOf,
  volumeDirOf,
  type DiskFile,
} from "../../../spec/disk-files.ts";
import type { DiskSource } from "../../../spec/disk-source.ts";
import { claimBytesOf, claimModeOf } from "../../../spec/claims.ts";
import {
  IMAGE_LIMIT_BYTES,
  OVERLAY_MIB,
  podVolumeName,
  type DiskFacts,
  type DiskPart,
} from "./disk-part.ts";

type ClaimSource = Extract<DiskSource, { readonly claimName: string }>;

/** How the claim is joined to the pod; what the guest does not write to is read-only in the pod too. */
function joined(
  disk: GuestDisk,
  source: ClaimSource,
  file: DiskFile,
): Pick<DiskPart, "volumes" | "mounts" | "devices"> {
  const name = podVolumeName(disk.volumeIndex);
  const isWritten = !source.readOnly && source.kind !== "ephemeral";
  const readOnly = isWritten ? {} : { readOnly: true };
  const volume: PodVolume = {
    name,
    persistentVolumeClaim: {
      claimName: source.claimName,
      ...(source.readOnly ? { readOnly: true } : {}),
    },
  };
  return file.kind === "block"
    ? { volumes: [volume], devices: [{ name, devicePath: volumeDeviceOf(disk.name) }] }
    : { volumes: [volume], mounts: [{ name, mountPath: volumeDirOf(disk.name), ...readOnly }] };
}

function groupOf(
  disk: GuestDisk,
  { kind }: ClaimSource,
  { file, limit }: { readonly file: DiskFile; readonly limit: string },
): readonly string[] {
  const readOnly = disk.readOnly ? ["readonly"] : [];
  if (kind === "ephemeral") {
    return ["overlay", disk.name, diskFileOf(disk, "Filesystem").path, file.path, limit];
  }
  if (file.kind === "block") return ["block", disk.name, file.path, ...readOnly];
  // A DataVolume's file is made by who fills it; an empty one would hide that nobody did.
  const isMade = kind === "persistentVolumeClaim" && !disk.readOnly;
  return ["file", disk.name, file.path, limit, ...(isMade ? ["make"] : []), ...readOnly];
}

/** A disk on a claim, by persistentVolumeClaim, dataVolume or ephemeral. */
export function claimDiskPart(disk: GuestDisk, source: ClaimSource, facts: DiskFacts): DiskPart {
  const claim = facts.claims.get(source.claimName);
  const file = claimFileOf(disk.name, claimModeOf(claim));
  const limit = String(claimBytesOf(claim) ?? IMAGE_LIMIT_BYTES);
  return {
    group: groupOf(disk, source, { file, limit }),
    ...joined(disk, source, file),
    diskMiB: source.kind === "ephemeral" ? OVERLAY_MIB : 0,
  };
}
