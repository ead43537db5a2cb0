// SPDX-License-Identifier: Apache-2.0
// Which disks several VMs, or several disks of one VM, can have at the same time.
import type { Disk } from "../../../kinds/guest/disk.ts";
import type { Cause } from "../../../kinds/kubernetes/meta.ts";
import type { Volume } from "../../../kinds/guest/volume.ts";
import { forEachDisk, causeIf, volumePath, type Rule } from "../../rule.ts";

/** Volumes over which each VM gets a qcow2 file of its own, which its QEMU locks. Source: ADR 0033. */
const OWN_FILES = [
  "containerDisk",
  "ephemeral",
  "emptyDisk",
] as const satisfies readonly (keyof Volume)[];
/** Past the host's memory, of which another node knows nothing. Source: KubeVirt pkg/virt-launcher converter, Shareable. */
const UNCACHED: readonly string[] = ["", "none", "directsync"];

/** Who only reads locks nothing. Source: libvirt qemu_validate.c, shared access of disks. */
function isWritten({ disk, lun, cdrom }: Disk): boolean {
  if (cdrom !== undefined) return cdrom.readonly === false;
  return (disk ?? lun)?.readonly !== true;
}

const fileCanBeShared = forEachDisk((disk, path, { volumes }) => {
  const volume = volumes.find(({ name }) => name === disk.name);
  const kind = OWN_FILES.find((each) => volume?.[each] !== undefined);
  const isShared = disk.shareable === true && isWritten(disk);
  return causeIf(isShared && kind !== undefined, {
    reason: "FieldValueInvalid",
    field: `${path}.shareable`,
    message: `${path}.shareable is not possible: data written to a volume of kind ${kind ?? ""} goes to a qcow2 file of this VM alone; use a persistentVolumeClaim, a dataVolume or a hostDisk`,
  });
});

const cacheSuitsSharing = forEachDisk(({ shareable, cache = "" }, path) =>
  causeIf(shareable === true && !UNCACHED.includes(cache), {
    reason: "FieldValueInvalid",
    field: `${path}.cache`,
    message: `a sharable disk requires cache mode none or directsync, got: ${cache}`,
  }),
);

/** What a volume has that another can have too. */
interface Use {
  /** In words. */
  readonly what: string;
  /** Where the volume names it, below the volume. */
  readonly field: string;
  readonly isWritten: boolean;
  readonly isShared: boolean;
}

/** A volume that no disk names is a disk all the same. Source: KubeVirt SetDefaultVolumeDisk. */
function useOf(volume: Volume, disks: readonly Disk[]): Use | undefined {
  const disk = disks.find(({ name }) => name === volume.name) ?? { name: volume.name };
  const { persistentVolumeClaim: claim, dataVolume, ephemeral, hostDisk } = volume;
  const isShared = disk.shareable === true || hostDisk?.shared === true;
  const claimUse = (name: string, field: string, isReadOnly: boolean): Use | undefined =>
    name === ""
      ? undefined
      : { what: `the claim ${name}`, field, isShared, isWritten: !isReadOnly && isWritten(disk) };
  if (claim !== undefined) {
    const field = "persistentVolumeClaim.claimName";
    return claimUse(claim.claimName, field, claim.readOnly === true);
  }
  if (dataVolume !== undefined) return claimUse(dataVolume.name, "dataVolume.name", false);
  if (ephemeral?.persistentVolumeClaim !== undefined) {
    const { claimName } = ephemeral.persistentVolumeClaim;
    return claimUse(claimName, "ephemeral.persistentVolumeClaim.claimName", true);
  }
  if (hostDisk === undefined) return undefined;
  const what = `the file ${hostDisk.path} of the node`;
  return { what, field: "hostDisk.path", isShared, isWritten: isWritten(disk) };
}

/** QEMU locks what it writes against everybody else, itself included. Source: QEMU block/file-posix.c, raw_check_perm. */
function excludes(one: Use, other: Use): boolean {
  const bothShare = one.isShared && other.isShared;
  return one.what === other.what && (one.isWritten || other.isWritten) && !bothShare;
}

const isUsedOnce: Rule = ({ volumes, disks, base }) => {
  const uses = volumes.map((volume) => useOf(volume, disks));
  return uses.flatMap((use, index): readonly Cause[] => {
    if (use === undefined) return [];
    const first = uses
      .slice(0, index)
      .findIndex((other) => other !== undefined && excludes(other, use));
    if (first < 0) return [];
    const field = `${volumePath(base, index)}.${use.field}`;
    const message = `${field} names ${use.what}, which ${volumePath(base, first)} already uses; a writable disk needs it for itself: remove one of the two, or make both read-only or both shareable`;
    return [{ reason: "FieldValueDuplicate", field, message }];
  });
};

/** Judges disks that are shareable, and those that would have to be. */
export const SHARING_RULES: readonly Rule[] = [fileCanBeShared, cacheSuitsSharing, isUsedOnce];
