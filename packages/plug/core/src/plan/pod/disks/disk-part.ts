// SPDX-License-Identifier: Apache-2.0
// What one disk needs of the launcher pod, and how it is made there.
import type { EnvVar, PersistentVolumeClaim, PodVolume, VolumeMount } from "@patchbay/api";
import type { ImageFiles } from "../image-files.ts";
import type { VolumeDevice } from "../parts.ts";

/** One disk's share of the pod. */
export interface DiskPart {
  /** Words for `prepare-disks`; docs/reference/prepare-disks.md. */
  readonly group: readonly string[];
  readonly volumes?: readonly PodVolume[];
  /** Of the launcher and of `prepare-disks`. */
  readonly mounts?: readonly VolumeMount[];
  readonly devices?: readonly VolumeDevice[];
  /** Of `prepare-disks` alone: what the guest gets a copy of. */
  readonly madeFrom?: readonly VolumeMount[];
  readonly env?: readonly EnvVar[];
  readonly files?: ImageFiles;
  /** Most that is written for it beside claims, MiB. */
  readonly diskMiB: number;
}

/** What disks are made of beside their VMI. */
export interface DiskFacts {
  /** The claims of the VMI's namespace that it uses, by name; one that is not there keeps the pod from being made. */
  readonly claims: ReadonlyMap<string, PersistentVolumeClaim>;
}

/** Most that the guest may see of an image of which nobody said how large it may be: what a file on ext4 can have. */
export const IMAGE_LIMIT_BYTES = 16 * 2 ** 40;
/** Most that an image's disk takes where it is copied, and that a guest's changes of a disk take. */
export const OVERLAY_MIB = 64 * 1024;
/** Most that a small disk takes: what an object holds at most is 1 MiB. Source: Kubernetes limit of a Secret or ConfigMap. */
export const SMALL_DISK_MIB = 8;
/** What an image of format qcow2 has beside the data. */
export const FORMAT_MIB = 64;

/** Name of the pod's volume for the VMI's volume of that number. */
export function podVolumeName(volumeIndex: number): string {
  return `volume-${String(volumeIndex)}`;
}

/** Text as it may stand in an argument or variable, where `$(NAME)` would be replaced. Source: Kubernetes Container.args. */
export function literally(text: string): string {
  return text.replaceAll("$", "$$$$");
}
