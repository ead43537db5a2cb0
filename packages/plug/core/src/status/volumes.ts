// SPDX-License-Identifier: Apache-2.0
// What virt-controller reports of a VMI's volumes: by it virt-handler knows a claim's device from its files.
import type { PersistentVolumeClaim, VirtualMachineInstance, VmiStatus } from "@patchbay/api";
import { claimModeOf } from "../spec/disk-files.ts";
import { claimNameOf, disksOf } from "../spec/disks.ts";
import { findByName } from "../spec/nics.ts";

/** What is known of one volume. */
export type VolumeStatus = NonNullable<VmiStatus["volumeStatus"]>[number];

type ClaimInfo = NonNullable<VolumeStatus["persistentVolumeClaimInfo"]>;

function claimInfo(claim: PersistentVolumeClaim): ClaimInfo {
  const { capacity } = claim.status ?? {};
  const { accessModes, resources } = claim.spec;
  return {
    claimName: claim.metadata.name,
    volumeMode: claimModeOf(claim),
    ...(accessModes === undefined ? {} : { accessModes: [...accessModes] }),
    ...(capacity === undefined ? {} : { capacity: { ...capacity } }),
    ...(resources?.requests === undefined ? {} : { requests: { ...resources.requests } }),
  };
}

/** One entry for each disk; of a claim that is not seen any more what was known of it. */
export function volumeStatuses(
  { spec, status }: VirtualMachineInstance,
  claims: ReadonlyMap<string, PersistentVolumeClaim>,
): readonly VolumeStatus[] {
  return disksOf(spec).map(({ name, source }) => {
    const before = findByName(status?.volumeStatus, name);
    const claim = claims.get(claimNameOf(source) ?? "");
    return {
      ...(before ?? { name, target: "" }),
      ...(claim === undefined ? {} : { persistentVolumeClaimInfo: claimInfo(claim) }),
    };
  });
}
