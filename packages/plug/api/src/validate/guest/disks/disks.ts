// SPDX-License-Identifier: Apache-2.0
// Which disks a VM may declare. Source: KubeVirt pkg/storage/admitters/disks.go.
import type { Disk } from "../../../kinds/guest/disk.ts";
import type { Cause } from "../../../kinds/kubernetes/meta.ts";
import { PCI_ADDRESS } from "../../../values/pci-address.ts";
import { causeIf, diskPath, forEachDisk, type Rule } from "../../rule.ts";
import { labelFaults, namesAreUnique } from "../names.ts";

/** Source: KubeVirt arrayLenMax. */
const LIST_MAX = 256;
/** Characters of a serial number. Source: KubeVirt maxStrLen. */
const SERIAL_MAX = 256;
const SERIAL = /^[A-Za-z0-9_.+-]+$/;
/** Source: KubeVirt DiskBus. */
const BUSES: readonly string[] = ["virtio", "scsi", "sata", "usb"];
const TARGETS = ["disk", "lun", "cdrom"] as const;

type Target = (typeof TARGETS)[number];

/** Of a disk that names none. Source: KubeVirt defaults of amd64. */
const DEFAULT_BUS = "sata";

/** What the disk is said to be, and its bus; of several the first, which another rule refuses. */
function targetOf(disk: Disk): { readonly target: Target; readonly bus: string } {
  const target = TARGETS.find((each) => disk[each] !== undefined) ?? "disk";
  const bus = disk[target]?.bus ?? "";
  return { target, bus: bus === "" ? DEFAULT_BUS : bus };
}

/** A cause against the bus of a disk. */
function busCause(path: string, target: Target, message: string): readonly Cause[] {
  return [{ reason: "FieldValueInvalid", field: `${path}.${target}.bus`, message }];
}

const notTooMany: Rule = ({ disks, volumes, base }) =>
  [
    [`${base}.domain.devices.disks`, disks.length] as const,
    [`${base}.volumes`, volumes.length] as const,
  ].flatMap(([field, length]) =>
    causeIf(length > LIST_MAX, {
      reason: "FieldValueInvalid",
      field,
      message: `${field} list exceeds the ${String(LIST_MAX)} element limit in length`,
    }),
  );

const hasVolume = forEachDisk(({ name }, path, { volumes, base }) =>
  causeIf(!volumes.some((volume) => volume.name === name), {
    reason: "FieldValueInvalid",
    field: `${path}.name`,
    message: `${path}.Name '${name}' not found. No volume is named "${name}": add one to ${base}.volumes, or give the disk the name of one`,
  }),
);

const nameIsUnique = namesAreUnique(({ disks }) => disks, diskPath);

/** Names of disks become names of files and of the pod's volumes. */
const nameIsLabel = forEachDisk(({ name }, path) =>
  labelFaults(name).map((message) => ({
    reason: "FieldValueInvalid",
    field: `${path}.name`,
    message,
  })),
);

const isOneThing = forEachDisk((disk, path) =>
  causeIf(TARGETS.filter((target) => disk[target] !== undefined).length > 1, {
    reason: "FieldValueInvalid",
    field: path,
    message: `${path} can only have a single target type defined`,
  }),
);

const lunIsClaim = forEachDisk(({ name, lun }, path, { volumes }) => {
  const volume = volumes.find((each) => each.name === name);
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
    ...causeIf(!PCI_ADDRESS.test(address), {
      reason: "FieldValueInvalid",
      field,
      message: `disk ${path}.name has malformed PCI address (${address}).`,
    }),
  ];
});

const busIsKnown = forEachDisk((disk, path): readonly Cause[] => {
  const { target, bus } = targetOf(disk);
  if (bus === "ide") return busCause(path, target, "IDE bus is not supported");
  const known = BUSES.join(" ");
  const message = `${path} is set with an unrecognized bus ${bus}, must be one of: [${known}]`;
  return BUSES.includes(bus) ? [] : busCause(path, target, message);
});

/** What a bus cannot carry. */
const busSuits = forEachDisk((disk, path): readonly Cause[] => {
  const { target, bus } = targetOf(disk);
  if (target === "cdrom" && bus === "virtio") {
    return busCause(path, target, `Bus type ${bus} is invalid for CD-ROM device`);
  }
  // KubeVirt takes it, and libvirt and QEMU refuse to start it. Source: KubeVirt issue 17826.
  if (target === "lun" && bus !== "scsi") {
    return busCause(path, target, `Bus type ${bus} is invalid for LUN device; use scsi`);
  }
  if (bus === "sata" && disk.disk?.readonly === true) {
    return busCause(path, target, `${bus} hard-disks do not support read-only.`);
  }
  return [];
});

const threadSuitsBus = forEachDisk((disk, path) => {
  const { bus } = targetOf(disk);
  return causeIf(disk.dedicatedIOThread === true && bus !== "virtio", {
    reason: "FieldValueNotSupported",
    field: path,
    message: `IOThreads are not supported for disks on a ${bus} bus`,
  });
});

const serialIsValid = forEachDisk(({ serial = "" }, path) => {
  const field = `${path}.serial`;
  return [
    ...causeIf(serial !== "" && !SERIAL.test(serial), {
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

/** Judges what each disk is, on which bus, and what the guest reads of it. */
export const DISK_RULES: readonly Rule[] = [
  notTooMany,
  hasVolume,
  nameIsUnique,
  isOneThing,
  lunIsClaim,
  pciAddressIsValid,
  busIsKnown,
  busSuits,
  threadSuitsBus,
  serialIsValid,
  nameIsLabel,
];
