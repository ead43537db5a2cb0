// SPDX-License-Identifier: Apache-2.0
// Where a disk's data is in the launcher. The guest's domain names these places, `prepare-disks` fills them.
import { names, type VirtualMachineInstance } from "@patchbay/api";
import { isSmallDisk, type GuestDisk } from "./disks.ts";
import { findHostPath } from "./host-path.ts";

/** How a claim is given to a pod. Source: Kubernetes PersistentVolumeMode. */
export type VolumeMode = "Filesystem" | "Block";

/** What the domain opens; the format is ours to say, never an image's. */
export interface DiskFile {
  readonly kind: "file" | "block";
  readonly path: string;
  readonly format: "raw" | "qcow2";
}

/** The file of a claim of mode Filesystem. Source: KubeVirt. */
const CLAIM_FILE = "disk.img";

/** Where a volume is mounted in the launcher: a claim's file system, an image's files, keys of a ConfigMap. */
export function volumeDirOf(volume: string): string {
  return `${names.VOLUMES_DIR}/${volume}`;
}

/** Where the device of a claim of mode Block is in the launcher. */
export function volumeDeviceOf(volume: string): string {
  return `${names.BLOCK_VOLUMES_DIR}/${volume}`;
}

/** The file or device of a claim, mounted for that volume. */
export function claimFileOf(volume: string, mode: VolumeMode): DiskFile {
  return mode === "Block"
    ? { kind: "block", path: volumeDeviceOf(volume), format: "raw" }
    : { kind: "file", path: `${volumeDirOf(volume)}/${CLAIM_FILE}`, format: "raw" };
}

/** What the domain opens for a disk; `mode` matters for claims only. */
export function diskFileOf(disk: GuestDisk, mode: VolumeMode): DiskFile {
  const { source } = disk;
  const { kind } = source;
  if (kind === "persistentVolumeClaim" || kind === "dataVolume")
    return claimFileOf(disk.name, mode);
  if (kind === "hostDisk") {
    const file = findHostPath(source.path)?.file ?? CLAIM_FILE;
    return { kind: "file", path: `${volumeDirOf(disk.name)}/${file}`, format: "raw" };
  }
  const base = `${names.DISKS_DIR}/${disk.name}`;
  return isSmallDisk(disk)
    ? { kind: "file", path: `${base}.iso`, format: "raw" }
    : { kind: "file", path: `${base}.qcow2`, format: "qcow2" };
}

/** How the claim of a volume is given, as virt-controller reported it before the launcher was made. */
export function volumeModeOf({ status }: VirtualMachineInstance, volume: string): VolumeMode {
  const info = status?.volumeStatus?.find(({ name }) => name === volume)?.persistentVolumeClaimInfo;
  return info?.volumeMode === "Block" ? "Block" : "Filesystem";
}

/** What the firmware keeps over restarts of the guest. */
export const NVRAM_FILE = `${names.STATE_DIR}/nvram.fd`;
