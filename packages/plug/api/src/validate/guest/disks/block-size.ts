// SPDX-License-Identifier: Apache-2.0
// Which sizes the blocks of a disk may have. Source: KubeVirt pkg/storage/admitters/disks.go.
import type { Disk } from "../../../kinds/guest/disk.ts";
import type { Cause } from "../../../kinds/kubernetes/meta.ts";
import { isOn } from "../../../fields/notation.ts";
import { forEachDisk, type Rule } from "../../rule.ts";

/** Source: KubeVirt minCustomBlockSize; the sector of a disk. */
const MIN_BYTES = 512;
/** Source: KubeVirt maxCustomBlockSize. */
const MAX_BYTES = 2 * 1024 * 1024;

type Sizes = Required<Omit<CustomSizes, "discardGranularity">> &
  Pick<CustomSizes, "discardGranularity">;
type CustomSizes = NonNullable<NonNullable<Disk["blockSize"]>["custom"]>;

/** What is wrong with one size; undefined: nothing. */
function sizeFault(bytes: number): string | undefined {
  if (bytes < MIN_BYTES) {
    return `Provided size of ${String(bytes)} is less than the supported minimum size of ${String(MIN_BYTES)}`;
  }
  if (bytes > MAX_BYTES) {
    return `Provided size of ${String(bytes)} is greater than the supported maximum size of ${String(MAX_BYTES)}`;
  }
  const isPower = Number.isInteger(Math.log2(bytes));
  return isPower ? undefined : `Provided size of ${String(bytes)} is not a power of 2`;
}

/** Emulated controllers of that bus know no other. Source: QEMU hw/ide/ide-dev.c. */
function isSata({ disk, cdrom, lun }: Disk): boolean {
  return ["", "sata"].includes((disk ?? cdrom ?? lun)?.bus ?? "");
}

/** What is wrong with the sizes to each other; undefined: nothing. */
function relationFault(
  disk: Disk,
  sizes: Sizes,
): readonly [key: string, fault: string] | undefined {
  const { logical, physical, discardGranularity: granularity = 0 } = sizes;
  const said = `Logical size ${String(logical)}`;
  if (logical > physical) {
    return [
      "logical",
      `${said} must be the same or less than the physical size of ${String(physical)}`,
    ];
  }
  if (isSata(disk) && logical !== MIN_BYTES) {
    return ["logical", `${said} must be ${String(MIN_BYTES)} for SATA devices`];
  }
  if (logical > 0 && granularity % logical !== 0) {
    const fault = `Discard granularity ${String(granularity)} must be multiples of logical size ${String(logical)}`;
    return ["discardGranularity", fault];
  }
  return undefined;
}

function sizeCauses(disk: Disk, custom: CustomSizes, path: string): readonly Cause[] {
  const sizes = { ...custom, logical: custom.logical ?? 0, physical: custom.physical ?? 0 };
  const relation = relationFault(disk, sizes);
  const faults =
    relation === undefined
      ? (["logical", "physical"] as const).map((key) => [key, sizeFault(sizes[key])] as const)
      : [relation];
  return faults.flatMap(([key, message]) =>
    message === undefined
      ? []
      : [{ reason: "FieldValueInvalid", field: `${path}.custom.${key}`, message }],
  );
}

const sizesAreValid = forEachDisk((disk, diskPath): readonly Cause[] => {
  const { custom, matchVolume } = disk.blockSize ?? {};
  const path = `${diskPath}.blockSize`;
  if (custom === undefined) return [];
  if (matchVolume !== undefined && isOn(matchVolume)) {
    const message = "Block size matching can't be enabled together with a custom value";
    return [{ reason: "FieldValueInvalid", field: path, message }];
  }
  return sizeCauses(disk, custom, path);
});

/** Judges block sizes. */
export const BLOCK_SIZE_RULES: readonly Rule[] = [sizesAreValid];
