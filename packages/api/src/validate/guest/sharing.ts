// SPDX-License-Identifier: Apache-2.0
// Which disks several VMs can have at the same time.
import type { Disk } from "../../kinds/guest/disk.ts";
import type { Volume } from "../../kinds/guest/volume.ts";
import { forEachDisk, causeIf, type Rule } from "../rule.ts";

/** Volumes over which each VM gets a qcow2 file of its own, which its QEMU locks. Source: docs/adr/0033. */
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
    message: `${path}.shareable is not possible: what is written to a volume of kind ${kind ?? ""} is in a qcow2 file of this VM alone; use a persistentVolumeClaim, a dataVolume or a hostDisk`,
  });
});

const cacheSuitsSharing = forEachDisk(({ shareable, cache = "" }, path) =>
  causeIf(shareable === true && !UNCACHED.includes(cache), {
    reason: "FieldValueInvalid",
    field: `${path}.cache`,
    message: `a sharable disk requires cache mode none or directsync, got: ${cache}`,
  }),
);

/** Judges disks that are shareable. */
export const SHARING_RULES: readonly Rule[] = [fileCanBeShared, cacheSuitsSharing];
