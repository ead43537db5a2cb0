// SPDX-License-Identifier: Apache-2.0
// Paths of disks in the launcher. `prepare-disks` creates the files and the domain opens them.
import { names, type VirtualMachineInstance } from "@patchbay/api";
import type { PersistentVolumeClaim } from "@patchbay/api/kubernetes";
import { parseQuantity } from "@patchbay/api/values";
import { isSmallDisk, findClaimName, listDisks, type GuestDisk } from "./disks.ts";
import { buildStateClaimName } from "./guest-devices.ts";

export type VolumeMode = "Filesystem" | "Block";

/** File that the domain opens. The format is never detected, because a guest could forge the header of another format. */
export interface DiskFile {
  readonly kind: "file" | "block";
  readonly path: string;
  readonly format: "raw" | "qcow2";
}

/** File name of the disk in a claim with volumeMode Filesystem. Source: KubeVirt. */
const CLAIM_FILE = "disk.img";

export function findVolumeDirectory(volume: string): string {
  return `${names.VOLUMES_DIR}/${volume}`;
}

export function findVolumeDevice(volume: string): string {
  return `${names.BLOCK_VOLUMES_DIR}/${volume}`;
}

export function buildClaimFile(volume: string, mode: VolumeMode): DiskFile {
  return mode === "Block"
    ? { kind: "block", path: findVolumeDevice(volume), format: "raw" }
    : { kind: "file", path: `${findVolumeDirectory(volume)}/${CLAIM_FILE}`, format: "raw" };
}

/** Returns the file of a disk. `mode` applies only to claims. */
export function buildDiskFile(disk: GuestDisk, mode: VolumeMode): DiskFile {
  const { source } = disk;
  const { kind } = source;
  if (kind === "persistentVolumeClaim" || kind === "dataVolume")
    return buildClaimFile(disk.name, mode);
  if (kind === "hostDisk") {
    const file = findHostPath(source.path)?.file ?? CLAIM_FILE;
    return { kind: "file", path: `${findVolumeDirectory(disk.name)}/${file}`, format: "raw" };
  }
  const base = `${names.DISKS_DIR}/${disk.name}`;
  return isSmallDisk(disk)
    ? { kind: "file", path: `${base}.iso`, format: "raw" }
    : { kind: "file", path: `${base}.qcow2`, format: "qcow2" };
}

/** Returns the claim's volume mode from the status. The default is Filesystem. */
export function findVolumeMode({ status }: VirtualMachineInstance, volume: string): VolumeMode {
  const info = status?.volumeStatus?.find(({ name }) => name === volume)?.persistentVolumeClaimInfo;
  return info?.volumeMode === "Block" ? "Block" : "Filesystem";
}

export const NVRAM_FILE = `${names.STATE_DIR}/nvram.fd`;

interface HostPath {
  /** Absolute path of the directory. Only the root ends with a slash. */
  readonly directory: string;
  readonly file: string;
}

/** Splits a path. Returns undefined if the path is not absolute, has no file name, or contains `.`, `..` or empty parts. */
export function findHostPath(path: string): HostPath | undefined {
  const [root, ...parts] = path.split("/");
  const isPlain = parts.every((part) => part !== "" && part !== "." && part !== "..");
  const file = parts.at(-1);
  if (root !== "" || file === undefined || !isPlain) return undefined;
  return { directory: `/${parts.slice(0, -1).join("/")}`, file };
}

export function readVolumeMode(claim: PersistentVolumeClaim | undefined): VolumeMode {
  return claim?.spec.volumeMode === "Block" ? "Block" : "Filesystem";
}

/** Returns the claim's capacity in bytes, or the requested size if the claim is not bound. */
export function readClaimBytes(claim: PersistentVolumeClaim | undefined): number | undefined {
  const capacity = claim?.status?.capacity?.["storage"];
  const bytes = parseQuantity(capacity ?? claim?.spec.resources?.requests?.["storage"]);
  return bytes === undefined ? undefined : Math.floor(bytes);
}

/** Lists the claims of disks in order, then the claim of the firmware and TPM state. Each claim appears once. */
export function listClaimNames(vmi: VirtualMachineInstance): readonly string[] {
  const diskClaims = listDisks(vmi.spec).flatMap(({ source }) => findClaimName(source) ?? []);
  return [...new Set([...diskClaims, ...[buildStateClaimName(vmi) ?? []].flat()])];
}
