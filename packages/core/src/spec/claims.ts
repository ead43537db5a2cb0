// SPDX-License-Identifier: Apache-2.0
// What a claim gives to a launcher.
import { parseQuantity, type PersistentVolumeClaim, type VmiSpec } from "@patchbay/api";
import { claimNameOf } from "./disk-source.ts";
import type { VolumeMode } from "./disk-files.ts";
import { disksOf } from "./disks.ts";

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

/** Names of the claims that the disks of a VMI are on, each once, in the order of the disks. */
export function claimNamesOf(spec: VmiSpec): readonly string[] {
  return [...new Set(disksOf(spec).flatMap(({ source }) => claimNameOf(source) ?? []))];
}
