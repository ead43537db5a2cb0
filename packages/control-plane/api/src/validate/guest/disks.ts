// SPDX-License-Identifier: Apache-2.0
// Rules for disks: buses, block sizes and sharing. Source: KubeVirt pkg/storage/admitters/disks.go.
import type { Disk, Volume } from "../../kinds/guest/disks.ts";
import type { Cause } from "../../kinds/kubernetes/meta.ts";
import { findByName } from "../../values/memoize.ts";
import { isPciAddress } from "../../values/pci.ts";
import { causeIf, diskPath, forEachDisk, type Rule, volumePath } from "../rule.ts";
import { labelFaults, namesAreUnique } from "./names.ts";
import { isFeatureOn } from "../../fields/notation.ts";

/** Maximum length of a serial number, in characters. Source: KubeVirt maxStrLen. */
const SERIAL_MAX = 256;
const SERIAL_SYNTAX = /^[A-Za-z0-9_.+-]+$/;
/** Source: KubeVirt DiskBus. */
const BUSES: readonly string[] = ["virtio", "scsi", "sata", "usb"];
const TARGETS = ["disk", "lun", "cdrom"] as const;

type Target = (typeof TARGETS)[number];

/** Source: KubeVirt defaults of amd64. */
const DEFAULT_BUS = "sata";

/** Returns a disk's target and bus, or their defaults. Reads only the first target, because another rule rejects disks with several. */
function findTarget(disk: Disk): { readonly target: Target; readonly bus: string } {
  const target = TARGETS.find((each) => disk[each] !== undefined) ?? "disk";
  const bus = disk[target]?.bus ?? "";
  return { target, bus: bus === "" ? DEFAULT_BUS : bus };
}

function buildBusCauses(path: string, target: Target, message: string): readonly Cause[] {
  return [{ reason: "FieldValueInvalid", field: `${path}.${target}.bus`, message }];
}

const hasVolume = forEachDisk(({ name }, path, { volumes, base }) =>
  causeIf(findByName(volumes, name) === undefined, {
    reason: "FieldValueInvalid",
    field: `${path}.name`,
    message: `${path}.Name '${name}' not found. No volume is named "${name}": add one to ${base}.volumes, or give the disk the name of one`,
  }),
);

const nameIsUnique = namesAreUnique(({ disks }) => disks, diskPath);

/** Requires DNS labels, because launcher pods use disk names as names of files and volumes. */
const nameIsLabel = forEachDisk(({ name }, path) =>
  labelFaults(name).map((message) => ({
    reason: "FieldValueInvalid",
    field: `${path}.name`,
    message,
  })),
);

const hasOneTarget = forEachDisk((disk, path) =>
  causeIf(TARGETS.filter((target) => disk[target] !== undefined).length > 1, {
    reason: "FieldValueInvalid",
    field: path,
    message: `${path} can only have a single target type defined`,
  }),
);

const lunIsClaim = forEachDisk(({ name, lun }, path, { volumes }) => {
  const volume = findByName(volumes, name);
  const isClaim = volume?.persistentVolumeClaim !== undefined || volume?.dataVolume !== undefined;
  return causeIf(lun !== undefined && volume !== undefined && !isClaim, {
    reason: "FieldValueInvalid",
    field: `${path}.lun`,
    message: `${path}.lun can only be mapped to a DataVolume or PersistentVolumeClaim volume.`,
  });
});

const pciAddressIsValid = forEachDisk(({ disk }, path) => {
  const address = disk?.pciAddress ?? "";
  if (address === "") return [];
  const field = `${path}.disk.pciAddress`;
  return [
    ...causeIf(disk?.bus !== "virtio", {
      reason: "FieldValueInvalid",
      field,
      message: `disk ${path}.name - setting a PCI address is only possible with bus type virtio.`,
    }),
    ...causeIf(!isPciAddress(address), {
      reason: "FieldValueInvalid",
      field,
      message: `disk ${path}.name has malformed PCI address (${address}).`,
    }),
  ];
});

const busIsKnown = forEachDisk((disk, path): readonly Cause[] => {
  const { target, bus } = findTarget(disk);
  if (bus === "ide") return buildBusCauses(path, target, "IDE bus is not supported");
  const busNames = BUSES.join(" ");
  const message = `${path} is set with an unrecognized bus ${bus}, must be one of: [${busNames}]`;
  return BUSES.includes(bus) ? [] : buildBusCauses(path, target, message);
});

const busSuitsTarget = forEachDisk((disk, path): readonly Cause[] => {
  const { target, bus } = findTarget(disk);
  if (target === "cdrom" && bus === "virtio") {
    return buildBusCauses(path, target, `Bus type ${bus} is invalid for CD-ROM device`);
  }
  // KubeVirt accepts a LUN on another bus, but libvirt and QEMU do not start such a guest. Source: KubeVirt issue 17826.
  if (target === "lun" && bus !== "scsi") {
    return buildBusCauses(path, target, `Bus type ${bus} is invalid for LUN device; use scsi`);
  }
  if (bus === "sata" && disk.disk?.readonly === true) {
    return buildBusCauses(path, target, `${bus} hard-disks do not support read-only.`);
  }
  return [];
});

const threadSuitsBus = forEachDisk((disk, path) => {
  const { bus } = findTarget(disk);
  return causeIf(disk.dedicatedIOThread === true && bus !== "virtio", {
    reason: "FieldValueNotSupported",
    field: path,
    message: `IOThreads are not supported for disks on a ${bus} bus`,
  });
});

const serialIsValid = forEachDisk(({ serial = "" }, path) => {
  const field = `${path}.serial`;
  return [
    ...causeIf(serial !== "" && !SERIAL_SYNTAX.test(serial), {
      reason: "FieldValueInvalid",
      field,
      message: `${path} must be made up of the following characters [A-Za-z0-9_.+-], if specified`,
    }),
    ...causeIf(serial.length > SERIAL_MAX, {
      reason: "FieldValueInvalid",
      field,
      message: `${path} must be less than or equal to ${String(SERIAL_MAX)} in length, if specified`,
    }),
  ];
});

export const DISK_RULES: readonly Rule[] = [
  hasVolume,
  nameIsUnique,
  hasOneTarget,
  lunIsClaim,
  pciAddressIsValid,
  busIsKnown,
  busSuitsTarget,
  threadSuitsBus,
  serialIsValid,
  nameIsLabel,
];

/** Smallest block size in bytes: the size of a traditional disk sector. Source: KubeVirt minCustomBlockSize. */
const BLOCK_SIZE_MIN = 512;
/** Largest block size in bytes. Source: KubeVirt maxCustomBlockSize. */
const BLOCK_SIZE_MAX = 2 * 1024 * 1024;

type Sizes = Required<Omit<CustomSizes, "discardGranularity">> &
  Pick<CustomSizes, "discardGranularity">;
type CustomSizes = NonNullable<NonNullable<Disk["blockSize"]>["custom"]>;

function findSizeFault(bytes: number): string | undefined {
  if (bytes < BLOCK_SIZE_MIN) {
    return `Provided size of ${String(bytes)} is less than the supported minimum size of ${String(BLOCK_SIZE_MIN)}`;
  }
  if (bytes > BLOCK_SIZE_MAX) {
    return `Provided size of ${String(bytes)} is greater than the supported maximum size of ${String(BLOCK_SIZE_MAX)}`;
  }
  const isPower = Number.isInteger(Math.log2(bytes));
  return isPower ? undefined : `Provided size of ${String(bytes)} is not a power of 2`;
}

/** Checks whether the disk is on the SATA bus. QEMU's SATA controllers support 512-byte sectors only. Source: QEMU hw/ide/ide-dev.c. */
function isSata({ disk, cdrom, lun }: Disk): boolean {
  return ["", "sata"].includes((disk ?? cdrom ?? lun)?.bus ?? "");
}

function findRelationFault(
  disk: Disk,
  sizes: Sizes,
): readonly [key: string, fault: string] | undefined {
  const { logical, physical, discardGranularity: granularity = 0 } = sizes;
  const prefix = `Logical size ${String(logical)}`;
  if (logical > physical) {
    return [
      "logical",
      `${prefix} must be the same or less than the physical size of ${String(physical)}`,
    ];
  }
  if (isSata(disk) && logical !== BLOCK_SIZE_MIN) {
    return ["logical", `${prefix} must be ${String(BLOCK_SIZE_MIN)} for SATA devices`];
  }
  if (logical > 0 && granularity % logical !== 0) {
    const fault = `Discard granularity ${String(granularity)} must be multiples of logical size ${String(logical)}`;
    return ["discardGranularity", fault];
  }
  return undefined;
}

function listSizeCauses(disk: Disk, custom: CustomSizes, path: string): readonly Cause[] {
  const sizes = { ...custom, logical: custom.logical ?? 0, physical: custom.physical ?? 0 };
  const relation = findRelationFault(disk, sizes);
  const faults =
    relation === undefined
      ? (["logical", "physical"] as const).map((key) => [key, findSizeFault(sizes[key])] as const)
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
  if (matchVolume !== undefined && isFeatureOn(matchVolume)) {
    const message = "Block size matching can't be enabled together with a custom value";
    return [{ reason: "FieldValueInvalid", field: path, message }];
  }
  return listSizeCauses(disk, custom, path);
});

export const BLOCK_SIZE_RULES: readonly Rule[] = [sizesAreValid];

/** Kinds of volumes for which each VM writes to its own qcow2 file. Source: ADR 0033. */
const PRIVATE_FILE_SOURCES = [
  "containerDisk",
  "ephemeral",
  "emptyDisk",
] as const satisfies readonly (keyof Volume)[];
/** Cache modes that bypass the host's page cache, so that all nodes see each write to a shared disk. An empty mode means `none`. */
const UNCACHED_MODES: readonly string[] = ["", "none", "directsync"];

/** Checks whether the guest can write to the disk. Source: libvirt qemu_validate.c, shared access of disks. */
function isWritable({ disk, lun, cdrom }: Disk): boolean {
  if (cdrom !== undefined) return cdrom.readonly === false;
  return (disk ?? lun)?.readonly !== true;
}

const fileCanBeShared = forEachDisk((disk, path, { volumes }) => {
  const volume = findByName(volumes, disk.name);
  const kind = PRIVATE_FILE_SOURCES.find((each) => volume?.[each] !== undefined);
  const isShared = disk.shareable === true && isWritable(disk);
  return causeIf(isShared && kind !== undefined, {
    reason: "FieldValueInvalid",
    field: `${path}.shareable`,
    message: `${path}.shareable is not possible: data written to a volume of kind ${kind ?? ""} goes to a qcow2 file of this VM alone; use a persistentVolumeClaim, a dataVolume or a hostDisk`,
  });
});

const cacheSuitsSharing = forEachDisk(({ shareable, cache = "" }, path) =>
  causeIf(shareable === true && !UNCACHED_MODES.includes(cache), {
    reason: "FieldValueInvalid",
    field: `${path}.cache`,
    message: `a sharable disk requires cache mode none or directsync, got: ${cache}`,
  }),
);

interface ImageUse {
  readonly image: string;
  readonly field: string;
  readonly isWritable: boolean;
  readonly isShared: boolean;
}

/** Returns the use of the volume's claim or file, if any. A missing disk has default settings. Source: KubeVirt SetDefaultVolumeDisk. */
function findImageUse(volume: Volume, disks: readonly Disk[]): ImageUse | undefined {
  const disk = findByName(disks, volume.name) ?? { name: volume.name };
  const { persistentVolumeClaim: claim, dataVolume, ephemeral, hostDisk } = volume;
  const isShared = disk.shareable === true || hostDisk?.shared === true;
  const buildClaimUse = (name: string, field: string, isReadOnly: boolean): ImageUse | undefined =>
    name === ""
      ? undefined
      : {
          image: `the claim ${name}`,
          field,
          isShared,
          isWritable: !isReadOnly && isWritable(disk),
        };
  if (claim !== undefined) {
    const field = "persistentVolumeClaim.claimName";
    return buildClaimUse(claim.claimName, field, claim.readOnly === true);
  }
  if (dataVolume !== undefined) return buildClaimUse(dataVolume.name, "dataVolume.name", false);
  if (ephemeral?.persistentVolumeClaim !== undefined) {
    const { claimName } = ephemeral.persistentVolumeClaim;
    return buildClaimUse(claimName, "ephemeral.persistentVolumeClaim.claimName", true);
  }
  if (hostDisk === undefined) return undefined;
  const image = `the file ${hostDisk.path} of the node`;
  return { image, field: "hostDisk.path", isShared, isWritable: isWritable(disk) };
}

/**
 * Checks whether two uses of an image conflict. QEMU locks a writable image against a second use, even by the same
 * process, unless both uses are shared. Source: QEMU block/file-posix.c, raw_check_perm.
 */
function conflicts(use: ImageUse, otherUse: ImageUse): boolean {
  const areBothShared = use.isShared && otherUse.isShared;
  return use.image === otherUse.image && (use.isWritable || otherUse.isWritable) && !areBothShared;
}

interface FirstUse extends ImageUse {
  readonly index: number;
}

/** Retains the first use of each kind. Other uses of that kind conflict with the same uses, so four entries per image suffice. */
function withUse(firstUses: readonly FirstUse[], use: FirstUse): readonly FirstUse[] {
  const isKnown = firstUses.some(
    ({ isWritable, isShared }) => isWritable === use.isWritable && isShared === use.isShared,
  );
  return isKnown ? firstUses : [...firstUses, use];
}

const isUsedOnce: Rule = ({ volumes, disks, base }) => {
  const usesByImage = new Map<string, readonly FirstUse[]>();
  return volumes.flatMap((volume, index): readonly Cause[] => {
    const use = findImageUse(volume, disks);
    if (use === undefined) return [];
    const earlierUses = usesByImage.get(use.image) ?? [];
    usesByImage.set(use.image, withUse(earlierUses, { ...use, index }));
    const first = earlierUses.find((earlierUse) => conflicts(earlierUse, use));
    if (first === undefined) return [];
    const field = `${volumePath(base, index)}.${use.field}`;
    const message = `${field} names ${use.image}, which ${volumePath(base, first.index)} already uses; a writable disk needs it for itself: remove one of the two, or make both read-only or both shareable`;
    return [{ reason: "FieldValueDuplicate", field, message }];
  });
};

export const SHARING_RULES: readonly Rule[] = [fileCanBeShared, cacheSuitsSharing, isUsedOnce];
