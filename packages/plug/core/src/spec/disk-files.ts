// SPDX-License-Identifier: Apache-2.0
// Where a disk's data is in the launcher. The guest's domain names these places, `prepare-disks` fills them.
import {
  names,
  parseQuantity,
  type VirtualMachineInstance,
  type PersistentVolumeClaim,
} from "@patchbay/api";
import { isSmallDisk, claimNameOf, disksOf, type GuestDisk } from "./disks.ts";
import { stateClaimNameOf } from "./guest-devices.ts";

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

/** An absolute path of a file, taken apart. */
interface HostPath {
  /** Absolute, without a slash at its end; the root is a slash. */
  readonly directory: string;
  readonly file: string;
}

/** Taken apart; undefined for a path that is not absolute, names no file, or goes up or in circles by `.` and `..`. */
export function findHostPath(path: string): HostPath | undefined {
  const [root, ...parts] = path.split("/");
  const isPlain = parts.every((part) => part !== "" && part !== "." && part !== "..");
  const file = parts.at(-1);
  if (root !== "" || file === undefined || !isPlain) return undefined;
  return { directory: `/${parts.slice(0, -1).join("/")}`, file };
}

/** Whether it is files or a device; files where nothing is known. */
export function claimModeOf(claim: PersistentVolumeClaim | undefined): VolumeMode {
  return claim?.spec.volumeMode === "Block" ? "Block" : "Filesystem";
}

/** How much it holds, bytes: what it has, before it is bound what it asks for; undefined where neither can be read. */
export function claimBytesOf(claim: PersistentVolumeClaim | undefined): number | undefined {
  const has = claim?.status?.capacity?.["storage"];
  const bytes = parseQuantity(has ?? claim?.spec.resources?.requests?.["storage"]);
  return bytes === undefined ? undefined : Math.floor(bytes);
}

/** Names of the claims that a VMI uses, each once: those of its disks, in their order, and that of its state. */
export function claimNamesOf(vmi: VirtualMachineInstance): readonly string[] {
  const ofDisks = disksOf(vmi.spec).flatMap(({ source }) => claimNameOf(source) ?? []);
  return [...new Set([...ofDisks, ...[stateClaimNameOf(vmi) ?? []].flat()])];
}
