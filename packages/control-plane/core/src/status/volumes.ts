// SPDX-License-Identifier: Apache-2.0
import type { VirtualMachineInstance, VmiStatus } from "@patchbay/api";
import type { PersistentVolumeClaim } from "@patchbay/api/kubernetes";
import { findByName } from "../nics/nics.ts";
import { readVolumeMode } from "../vm/spec/disk-files.ts";
import { findClaimName, listDisks } from "../vm/spec/disks.ts";

type VolumeStatus = NonNullable<VmiStatus["volumeStatus"]>[number];

type ClaimInfo = NonNullable<VolumeStatus["persistentVolumeClaimInfo"]>;

function buildClaimInfo(claim: PersistentVolumeClaim): ClaimInfo {
  const { capacity } = claim.status ?? {};
  const { accessModes, resources } = claim.spec;
  return {
    claimName: claim.metadata.name,
    volumeMode: readVolumeMode(claim),
    ...(accessModes === undefined ? {} : { accessModes: [...accessModes] }),
    ...(capacity === undefined ? {} : { capacity: { ...capacity } }),
    ...(resources?.requests === undefined ? {} : { requests: { ...resources.requests } }),
  };
}

/** Builds `volumeStatus` with one entry per disk, which describes the disk's claim. A missing claim leaves the entry unchanged. */
export function buildVolumeStatuses(
  { spec, status }: VirtualMachineInstance,
  claims: ReadonlyMap<string, PersistentVolumeClaim>,
): readonly VolumeStatus[] {
  return listDisks(spec).map(({ name, source }) => {
    const oldStatus = findByName(status?.volumeStatus, name);
    const claim = claims.get(findClaimName(source) ?? "");
    return {
      ...(oldStatus ?? { name, target: "" }),
      ...(claim === undefined ? {} : { persistentVolumeClaimInfo: buildClaimInfo(claim) }),
    };
  });
}
