// SPDX-License-Identifier: Apache-2.0
// Paths of disks in the launcher. `prepare-disks` creates the files and the domain opens them.
import { names, type VirtualMachineInstance } from "@patchbay/api";
import type { PersistentVolumeClaim } from "@patchbay/api/kubernetes";
import { parseQuantity } from "@patchbay/api/values";
import { isSmallDisk, findClaimName, listDisks, type GuestDisk } from "./disks.ts";
import { buildStateClaimName } from "./guest-devices.ts";

/** Source: Kubernetes PersistentVolumeMode. */
export type VolumeMode = "Filesystem" | "Block";

/** A file that the domain opens. The format is fixed here and never detected from the image. */
export interface DiskFile {
  readonly kind: "file" | "block";
  readonly path: string;
  readonly format: "raw" | "qcow2";
}

/** Name of the disk's file in a claim with volumeMode Filesystem. Source: KubeVirt. */
const CLAIM_FILE = "disk.img";

export function volumeDirOf(volume: string): string {
  return `${names.VOLUMES_DIR}/${volume}`;
}

export function volumeDeviceOf(volume: string): string {
  return `${names.BLOCK_VOLUMES_DIR}/${volume}`;
}

export function buildClaimFile(volume: string, mode: VolumeMode): DiskFile {
  return mode === "Block"
    ? { kind: "block", path: volumeDeviceOf(volume), format: "raw" }
    : { kind: "file", path: `${volumeDirOf(volume)}/${CLAIM_FILE}`, format: "raw" };
}

/** Returns the file of a disk. `mode` only applies to claims. */
export function buildDiskFile(disk: GuestDisk, mode: VolumeMode): DiskFile {
  const { source } = disk;
  const { kind } = source;
  if (kind === "persistentVolumeClaim" || kind === "dataVolume")
    return buildClaimFile(disk.name, mode);
  if (kind === "hostDisk") {
    const file = findHostPath(source.path)?.file ?? CLAIM_FILE;
    return { kind: "file", path: `${volumeDirOf(disk.name)}/${file}`, format: "raw" };
  }
  const base = `${names.DISKS_DIR}/${disk.name}`;
  return isSmallDisk(disk)
    ? { kind: "file", path: `${base}.iso`, format: "raw" }
    : { kind: "file", path: `${base}.qcow2`, format: "qcow2" };
}

/** Returns the volume mode that virt-controller reported before it created the launcher. */
export function volumeModeOf({ status }: VirtualMachineInstance, volume: string): VolumeMode {
  const info = status?.volumeStatus?.find(({ name }) => name === volume)?.persistentVolumeClaimInfo;
  return info?.volumeMode === "Block" ? "Block" : "Filesystem";
}

export const NVRAM_FILE = `${names.STATE_DIR}/nvram.fd`;

interface HostPath {
  /** Absolute path of the directory, without a trailing slash except for the root. */
  readonly directory: string;
  readonly file: string;
}

/** Splits a path; undefined if it is not absolute, names no file, or contains `.`, `..` or empty parts. */
export function findHostPath(path: string): HostPath | undefined {
  const [root, ...parts] = path.split("/");
  const isPlain = parts.every((part) => part !== "" && part !== "." && part !== "..");
  const file = parts.at(-1);
  if (root !== "" || file === undefined || !isPlain) return undefined;
  return { directory: `/${parts.slice(0, -1).join("/")}`, file };
}

export function readClaimMode(claim: PersistentVolumeClaim | undefined): VolumeMode {
  return claim?.spec.volumeMode === "Block" ? "Block" : "Filesystem";
}

/** Returns the claim's capacity in bytes, or the requested size until it is bound. */
export function readClaimBytes(claim: PersistentVolumeClaim | undefined): number | undefined {
  const capacity = claim?.status?.capacity?.["storage"];
  const bytes = parseQuantity(capacity ?? claim?.spec.resources?.requests?.["storage"]);
  return bytes === undefined ? undefined : Math.floor(bytes);
}

/** Lists the claims of the disks in order, then the claim of the firmware and TPM state, each once. */
export function listClaimNames(vmi: VirtualMachineInstance): readonly string[] {
  const ofDisks = listDisks(vmi.spec).flatMap(({ source }) => findClaimName(source) ?? []);
  return [...new Set([...ofDisks, ...[buildStateClaimName(vmi) ?? []].flat()])];
}
