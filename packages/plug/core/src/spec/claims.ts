// SPDX-License-Identifier: Apache-2.0
// What a claim gives to a launcher.
import {
  parseQuantity,
  type PersistentVolumeClaim,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { claimNameOf } from "./disk-source.ts";
import type { VolumeMode } from "./disk-files.ts";
import { disksOf } from "./disks.ts";
import { stateClaimNameOf } from "./guest-state.ts";

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
