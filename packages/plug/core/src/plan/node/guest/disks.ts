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
import { disksOf, type DiskSourceKind, type GuestDisk } from "../../../spec/disks.ts";
import { machineOf, vcpusOf } from "../../../spec/machine.ts";
import { ifacesOf } from "../../../spec/nics.ts";

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

/** Numbers of threads, from 1. */
interface IoThreads {
  readonly count: number;
  /** By name of the disk. */
  readonly ofDisks: ReadonlyMap<string, number>;
  /** Of the SCSI controller, for all disks on it. */
  readonly ofScsi?: number;
}

const NONE: IoThreads = { count: 0, ofDisks: new Map() };

/** Threads of the policy auto for each vCPU. Source: KubeVirt getIOThreadsCountType. */
const AUTO_THREADS_PER_VCPU = 2;

/** Threads that disks share: one, or with `auto` one each as far as the bound allows. */
function sharedThreads({ domain }: VmiSpec, shared: number, own: number): number {
  const most = domain.ioThreadsPolicy === "auto" ? AUTO_THREADS_PER_VCPU * vcpusOf(domain) : 1;
  return Math.max(1, Math.min(shared, most - own));
}

function hasThread({ bus }: GuestDisk): boolean {
  return bus === "virtio";
}

/**
 * Only virtio disks and the SCSI controller have threads; there are none where the VM asks for none. Those that are
 * shared come first, then those that a disk has for itself. Source: KubeVirt setIOThreads.
 */
export function ioThreadsOf(spec: VmiSpec): IoThreads {
  const all = disksOf(spec);
  const disks = all.filter(hasThread);
  const hasScsi = all.some(({ bus }) => bus === "scsi");
  const owning = disks.filter(({ hasOwnIoThread }) => hasOwnIoThread);
  const sharing = disks.filter(({ hasOwnIoThread }) => !hasOwnIoThread);
  const isAsked = spec.domain.ioThreadsPolicy !== undefined || owning.length > 0;
  if (!isAsked || (disks.length === 0 && !hasScsi)) return NONE;
  const shared = sharedThreads(spec, sharing.length, owning.length);
  const ofDisks = new Map([
    ...sharing.map(({ name }, index): [string, number] => [name, 1 + (index % shared)]),
    ...owning.map(({ name }, index): [string, number] => [name, 1 + shared + index]),
  ]);
  return { count: shared + owning.length, ofDisks, ...(hasScsi ? { ofScsi: 1 } : {}) };
}

/** Behind every number that a NIC may be plugged with while the guest runs: libvirt refuses a number twice. */
const UNSAID_FROM = 1001;

/**
 * Numbers by name of the disk: what the VM says of them. Where it says nothing of any disk or NIC and boots no
 * kernel, disks are tried in the order of the list. One without a number is not tried.
 */
export function bootOrderOf(spec: VmiSpec): ReadonlyMap<string, number> {
  const disks = disksOf(spec);
  const isSaid = [...disks, ...ifacesOf(spec)].some(({ bootOrder }) => bootOrder !== undefined);
  const hasKernel = spec.domain.firmware?.kernelBoot?.container !== undefined;
  return new Map(
    disks.flatMap(({ name, bootOrder }, index): readonly [string, number][] => {
      const order = isSaid || hasKernel ? bootOrder : UNSAID_FROM + index;
      return order === undefined ? [] : [[name, order]];
    }),
  );
}
