// SPDX-License-Identifier: Apache-2.0
// Disks of a VMI's domain, with their controllers, I/O threads and boot order.
import type { VirtualMachineInstance, VmiSpec } from "@patchbay/api";
import {
  findMachineFamily,
  type ControllerDefinition,
  type DiskDefinition,
  type Topology,
} from "@patchbay/domain";
import { buildDiskDeviceName, buildSataDeviceName, SATA_PORTS } from "../../nics/pcie/devices.ts";
import { buildDiskFile, findVolumeMode } from "../spec/disk-files.ts";
import { listDisks, type DiskSourceKind, type GuestDisk } from "../spec/disks.ts";
import { buildMachine, countVcpus } from "../spec/machine.ts";
import { ifacesOf } from "../../nics/nics.ts";

/** Prefix of disk aliases, which prevents a conflict with a NIC of the same name. */
const ALIAS_PREFIX = "ua-disk-";
const LETTER_COUNT = 26;

/** Returns the letters of a disk's device name: a to z, then aa to zz. Source: Linux drivers/scsi/sd.c sd_format_disk_name. */
function printDiskLetters(index: number): string {
  const prefixIndex = Math.floor(index / LETTER_COUNT) - 1;
  const letter = String.fromCharCode("a".charCodeAt(0) + (index % LETTER_COUNT));
  return (prefixIndex < 0 ? "" : printDiskLetters(prefixIndex)) + letter;
}

interface NumberedDisk {
  readonly disk: GuestDisk;
  readonly busIndex: number;
  readonly target: string;
}

function numberDisks(disks: readonly GuestDisk[]): readonly NumberedDisk[] {
  const countBefore = (index: number, isCounted: (disk: GuestDisk) => boolean): number =>
    disks.slice(0, index).filter(isCounted).length;
  return disks.map((disk, index) => {
    const isVirtio = disk.bus === "virtio";
    const named = countBefore(index, ({ bus }) => (bus === "virtio") === isVirtio);
    const busIndex = countBefore(index, ({ bus }) => bus === disk.bus);
    return { disk, busIndex, target: `${isVirtio ? "vd" : "sd"}${printDiskLetters(named)}` };
  });
}

/** Disk sources that both nodes of a migration can access. All other disks are in the launcher pod. */
const SHARED_SOURCES: readonly DiskSourceKind[] = [
  "persistentVolumeClaim",
  "dataVolume",
  "hostDisk",
];

/** Returns the targets of disks that a migration copies: writable disks in the launcher pod. The target pod recreates read-only disks. */
export function disksToCopy(spec: VmiSpec): readonly string[] {
  return numberDisks(listDisks(spec))
    .filter(({ disk }) => !disk.readOnly && !SHARED_SOURCES.includes(disk.source.kind))
    .map(({ target }) => target);
}

function findDiskAddress(
  { disk, busIndex }: NumberedDisk,
  { fixedAddresses: fixed }: Topology,
): DiskDefinition["address"] | undefined {
  if (disk.bus === "scsi") return { kind: "drive", controller: 0, unit: busIndex };
  if (disk.bus === "sata") {
    const controller = Math.floor(busIndex / SATA_PORTS);
    return { kind: "drive", controller, unit: busIndex % SATA_PORTS };
  }
  const address = fixed.get(buildDiskDeviceName(disk));
  return address === undefined ? undefined : { kind: "pci", address };
}

/** Returns the block sizes. `logical` defaults to 512 bytes, and `physical` defaults to `logical`. Source: QEMU hw/block/block.c */
function buildBlockSize({ blockSize }: GuestDisk): Pick<DiskDefinition, "blockSize"> {
  if (blockSize === undefined) return {};
  const { logical = 512, physical = logical, discardGranularity } = blockSize;
  const granularity = discardGranularity === undefined ? {} : { discardGranularity };
  return { blockSize: { logical, physical, ...granularity } };
}

/** Returns the I/O mode. The default is native I/O for block devices that bypass the page cache. Source: KubeVirt SetOptimalIOMode. */
function chooseIo({ io, cache }: GuestDisk, isDevice: boolean): Pick<DiskDefinition, "io"> {
  if (io === "native" || io === "threads") return { io };
  return io === undefined && isDevice && cache === "none" ? { io: "native" } : {};
}

function buildDiskOptions(disk: GuestDisk): Partial<DiskDefinition> {
  const { device, serial, tray, shareable } = disk;
  return {
    ...(disk.discard && device !== "cdrom" ? { discard: "unmap" } : {}),
    ...(serial === undefined || device === "lun" ? {} : { serial }),
    ...(tray === "open" ? { isTrayOpen: true } : {}),
    ...(shareable ? { isShareable: true } : {}),
    ...buildBlockSize(disk),
  };
}

export function buildDisks(
  vmi: VirtualMachineInstance,
  topology: Topology,
  ioThreads: IoThreads,
): readonly DiskDefinition[] {
  const bootOrders = planBootOrder(vmi.spec);
  return numberDisks(listDisks(vmi.spec)).flatMap((numberedDisk): readonly DiskDefinition[] => {
    const { disk, target } = numberedDisk;
    const address = findDiskAddress(numberedDisk, topology);
    if (address === undefined) return [];
    const source = buildDiskFile(disk, findVolumeMode(vmi, disk.name));
    const bootOrder = bootOrders.get(disk.name);
    const ioThread = ioThreads.ofDisks.get(disk.name);
    const { device, bus, readOnly, cache, errorPolicy } = disk;
    return [
      {
        alias: `${ALIAS_PREFIX}${disk.name}`,
        source,
        device,
        bus,
        target,
        address,
        readOnly,
        cache,
        errorPolicy,
        ...chooseIo(disk, source.kind === "block"),
        ...buildDiskOptions(disk),
        ...(bootOrder === undefined ? {} : { bootOrder }),
        ...(ioThread === undefined ? {} : { ioThread }),
      },
    ];
  });
}

export function buildControllers(
  vmi: VirtualMachineInstance,
  { fixedAddresses: fixed }: Topology,
  ioThreads: IoThreads,
): readonly ControllerDefinition[] {
  const firstExtraSata = findMachineFamily(buildMachine(vmi.spec.domain)) === "q35" ? 1 : 0;
  const ioThread = ioThreads.ofScsi === undefined ? {} : { ioThread: ioThreads.ofScsi };
  return [...fixed].flatMap(([device, pciAddress]): readonly ControllerDefinition[] => {
    if (device === "usb") return [{ type: "usb", index: 0, pciAddress }];
    if (device === "scsi") return [{ type: "scsi", index: 0, pciAddress, ...ioThread }];
    if (!device.startsWith("sata:")) return [];
    const index = Number(device.slice("sata:".length));
    return index >= firstExtraSata && device === buildSataDeviceName(index)
      ? [{ type: "sata", index, pciAddress }]
      : [];
  });
}

/** I/O threads of a domain, numbered from 1. */
interface IoThreads {
  readonly threadCount: number;
  readonly ofDisks: ReadonlyMap<string, number>;
  readonly ofScsi?: number;
}

const NO_IO_THREADS: IoThreads = { threadCount: 0, ofDisks: new Map() };

/** Limit of automatic I/O threads per vCPU. Source: KubeVirt getIOThreadsCountType. */
const AUTO_THREADS_PER_VCPU = 2;

/** Returns the number of shared I/O threads. Policy `auto` allows one per sharing disk, up to a limit. Other policies allow one. */
function countSharedThreads(
  { domain }: VmiSpec,
  sharingDisks: number,
  dedicatedThreads: number,
): number {
  const limit = domain.ioThreadsPolicy === "auto" ? AUTO_THREADS_PER_VCPU * countVcpus(domain) : 1;
  return Math.max(1, Math.min(sharingDisks, limit - dedicatedThreads));
}

function hasThread({ bus }: GuestDisk): boolean {
  return bus === "virtio";
}

/** Assigns I/O threads to virtio disks and the SCSI controller. Shared threads have the lowest numbers. Source: KubeVirt setIOThreads. */
export function planIoThreads(spec: VmiSpec): IoThreads {
  const allDisks = listDisks(spec);
  const disks = allDisks.filter(hasThread);
  const hasScsi = allDisks.some(({ bus }) => bus === "scsi");
  const disksWithOwnThread = disks.filter(({ hasOwnIoThread }) => hasOwnIoThread);
  const disksWithSharedThread = disks.filter(({ hasOwnIoThread }) => !hasOwnIoThread);
  const isRequested = spec.domain.ioThreadsPolicy !== undefined || disksWithOwnThread.length > 0;
  if (!isRequested || (disks.length === 0 && !hasScsi)) return NO_IO_THREADS;
  const sharedThreads = countSharedThreads(
    spec,
    disksWithSharedThread.length,
    disksWithOwnThread.length,
  );
  const ofDisks = new Map([
    ...disksWithSharedThread.map(({ name }, index): [string, number] => [
      name,
      1 + (index % sharedThreads),
    ]),
    ...disksWithOwnThread.map(({ name }, index): [string, number] => [
      name,
      1 + sharedThreads + index,
    ]),
  ]);
  return {
    threadCount: sharedThreads + disksWithOwnThread.length,
    ofDisks,
    ...(hasScsi ? { ofScsi: 1 } : {}),
  };
}

/** First default boot order of disks. The value is so high that no hotplugged NIC has it, because libvirt rejects duplicate boot orders. */
const FIRST_DEFAULT_BOOT_ORDER = 1001;

/** Returns the boot order by disk. Disks boot in list order if the spec has no bootOrder and no kernel. */
export function planBootOrder(spec: VmiSpec): ReadonlyMap<string, number> {
  const disks = listDisks(spec);
  const isConfigured = [...disks, ...ifacesOf(spec)].some(
    ({ bootOrder }) => bootOrder !== undefined,
  );
  const hasKernel = spec.domain.firmware?.kernelBoot?.container !== undefined;
  return new Map(
    disks.flatMap(({ name, bootOrder }, index): readonly [string, number][] => {
      const order = isConfigured || hasKernel ? bootOrder : FIRST_DEFAULT_BOOT_ORDER + index;
      return order === undefined ? [] : [[name, order]];
    }),
  );
}
