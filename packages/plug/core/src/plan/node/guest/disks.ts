// SPDX-License-Identifier: Apache-2.0
// The disks of a VMI's domain, and the controllers that they hang on.
import type { VirtualMachineInstance, VmiSpec } from "@patchbay/api";
import {
  machineFamilyOf,
  type ControllerDefinition,
  type DiskDefinition,
  type Topology,
} from "@patchbay/domain";
import { deviceOfDisk, deviceOfSata, SATA_PORTS } from "../../../pcie/devices.ts";
import { diskFileOf, volumeModeOf } from "../../../spec/disk-files.ts";
import type { DiskSourceKind } from "../../../spec/disk-source.ts";
import { disksOf, type GuestDisk } from "../../../spec/disks.ts";
import { machineOf } from "../../../spec/machine.ts";
import { bootOrderOf } from "./boot-order.ts";
import type { IoThreads } from "./io-threads.ts";

/** Not the alias of a NIC of the same name. */
const ALIAS_PREFIX = "ua-disk-";
const LETTERS = 26;

/** Letters as Linux counts disks: a to z, then aa. Source: Linux drivers/scsi/sd.c sd_format_disk_name. */
function lettersOf(index: number): string {
  const rest = Math.floor(index / LETTERS) - 1;
  const letter = String.fromCharCode("a".charCodeAt(0) + (index % LETTERS));
  return (rest < 0 ? "" : lettersOf(rest)) + letter;
}

/** A disk with its place among those of its bus, and among those whose names begin as its own. */
interface Counted {
  readonly disk: GuestDisk;
  readonly onBus: number;
  readonly target: string;
}

function count(disks: readonly GuestDisk[]): readonly Counted[] {
  const before = (index: number, like: (disk: GuestDisk) => boolean): number =>
    disks.slice(0, index).filter(like).length;
  return disks.map((disk, index) => {
    const isVirtio = disk.bus === "virtio";
    const named = before(index, ({ bus }) => (bus === "virtio") === isVirtio);
    const onBus = before(index, ({ bus }) => bus === disk.bus);
    return { disk, onBus, target: `${isVirtio ? "vd" : "sd"}${lettersOf(named)}` };
  });
}

/** Sources that both nodes see, by what `LiveMigratable` asks of them; what others hold is in the launcher's pod. */
const SHARED: readonly DiskSourceKind[] = ["persistentVolumeClaim", "dataVolume", "hostDisk"];

/**
 * What the guest writes into its launcher's pod goes along when it moves: the disks, by what they are called in the domain. What it
 * only reads the target's pod has made anew.
 */
export function travellingDisks(spec: VmiSpec): readonly string[] {
  return count(disksOf(spec))
    .filter(({ disk }) => !disk.readOnly && !SHARED.includes(disk.source.kind))
    .map(({ target }) => target);
}

function placeOf(
  { disk, onBus }: Counted,
  { fixed }: Topology,
): DiskDefinition["place"] | undefined {
  if (disk.bus === "scsi") return { kind: "drive", controller: 0, unit: onBus };
  if (disk.bus === "sata") {
    const controller = Math.floor(onBus / SATA_PORTS);
    return { kind: "drive", controller, unit: onBus % SATA_PORTS };
  }
  const address = fixed.get(deviceOfDisk(disk));
  return address === undefined ? undefined : { kind: "pci", address };
}

/** 512 bytes where a size is not given. Source: QEMU hw/block/block.c */
function blockSizeOf({ blockSize }: GuestDisk): Pick<DiskDefinition, "blockSize"> {
  if (blockSize === undefined) return {};
  const { logical = 512, physical = logical, discardGranularity } = blockSize;
  const granularity = discardGranularity === undefined ? {} : { discardGranularity };
  return { blockSize: { logical, physical, ...granularity } };
}

/** Native I/O passes the host's memory by, and is worth it where nothing has to be allocated first. Source: KubeVirt SetOptimalIOMode. */
function ioOf({ io, cache }: GuestDisk, isDevice: boolean): Pick<DiskDefinition, "io"> {
  if (io === "native" || io === "threads") return { io };
  return io === undefined && isDevice && cache === "none" ? { io: "native" } : {};
}

/** Only a hard disk gives back what the guest discards, and only it is written to. */
function optionsOf(disk: GuestDisk): Partial<DiskDefinition> {
  const { device, serial, tray, shareable } = disk;
  return {
    ...(disk.discard && device !== "cdrom" ? { discard: "unmap" } : {}),
    ...(serial === undefined || device === "lun" ? {} : { serial }),
    ...(tray === "open" ? { isTrayOpen: true } : {}),
    ...(shareable ? { isShareable: true } : {}),
    ...blockSizeOf(disk),
  };
}

/** The disks, each with a place; one without any is left out, and its VMI is never started. */
export function diskDefinitionsOf(
  vmi: VirtualMachineInstance,
  topology: Topology,
  ioThreads: IoThreads,
): readonly DiskDefinition[] {
  const orders = bootOrderOf(vmi.spec);
  return count(disksOf(vmi.spec)).flatMap((counted): readonly DiskDefinition[] => {
    const { disk, target } = counted;
    const place = placeOf(counted, topology);
    if (place === undefined) return [];
    const source = diskFileOf(disk, volumeModeOf(vmi, disk.name));
    const bootOrder = orders.get(disk.name);
    const ioThread = ioThreads.ofDisks.get(disk.name);
    const { device, bus, readOnly, cache, errorPolicy } = disk;
    return [
      {
        alias: `${ALIAS_PREFIX}${disk.name}`,
        source,
        device,
        bus,
        target,
        place,
        readOnly,
        cache,
        errorPolicy,
        ...ioOf(disk, source.kind === "block"),
        ...optionsOf(disk),
        ...(bootOrder === undefined ? {} : { bootOrder }),
        ...(ioThread === undefined ? {} : { ioThread }),
      },
    ];
  });
}

/** The controllers that have a place in the layout, in the order in which they got theirs. */
export function controllersOf(
  vmi: VirtualMachineInstance,
  { fixed }: Topology,
  ioThreads: IoThreads,
): readonly ControllerDefinition[] {
  const hasOne = machineFamilyOf(machineOf(vmi.spec.domain)) === "q35" ? 1 : 0;
  const ioThread = ioThreads.ofScsi === undefined ? {} : { ioThread: ioThreads.ofScsi };
  return [...fixed].flatMap(([device, pciAddress]): readonly ControllerDefinition[] => {
    if (device === "usb") return [{ type: "usb", index: 0, pciAddress }];
    if (device === "scsi") return [{ type: "scsi", index: 0, pciAddress, ...ioThread }];
    if (!device.startsWith("sata:")) return [];
    const index = Number(device.slice("sata:".length));
    return index >= hasOne && device === deviceOfSata(index)
      ? [{ type: "sata", index, pciAddress }]
      : [];
  });
}
