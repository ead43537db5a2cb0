// SPDX-License-Identifier: Apache-2.0
// VMs of every supported shape, each with its disks' files.
import type { Disk, VmiSpec, Volume } from "@patchbay/api";

type Domain = VmiSpec["domain"];
type Devices = NonNullable<Domain["devices"]>;

/** A VM and its expectations. */
export interface Shape {
  readonly name: string;
  readonly domain: Domain;
  readonly volumes?: readonly Volume[];
}

function shape(name: string, devices: Devices, more: Partial<Domain> = {}): Shape {
  const volumes = (devices.disks ?? []).map((disk) => ({
    name: disk.name,
    emptyDisk: { capacity: "64Mi" },
  }));
  return { name, domain: { memory: { guest: "64Mi" }, devices, ...more }, volumes };
}

function disksOn(bus: string, count: number): Disk[] {
  return Array.from({ length: count }, (_unused, index) => ({
    name: `${bus}${String(index)}`,
    disk: { bus },
  }));
}

const EVERY_DEVICE: Devices = {
  disks: [
    ...disksOn("virtio", 2),
    { name: "cd", cdrom: { bus: "sata" } },
    { name: "open", cdrom: { bus: "scsi", tray: "open" } },
  ],
  inputs: [
    { name: "a", type: "tablet", bus: "virtio" },
    { name: "b", type: "tablet" },
  ],
  rng: {},
  watchdog: { name: "w", i6300esb: { action: "poweroff" } },
};

const DISK: Disk = {
  name: "all",
  disk: { bus: "virtio" },
  serial: "SERIAL-1",
  cache: "none",
  io: "native",
  errorPolicy: "report",
  dedicatedIOThread: true,
  bootOrder: 1,
  blockSize: { custom: { logical: 512, physical: 4096, discardGranularity: 65536 } },
};

const IDENTITY: Partial<Domain> = {
  firmware: { uuid: "5D307CA9-B3EF-428C-8861-06E72D69F223", serial: "MACHINE-1" },
  chassis: { asset: "a", manufacturer: "m", serial: "s", sku: "k", version: "v" },
};

const CLOCK: Partial<Domain> = {
  clock: {
    utc: { offsetSeconds: 3600 },
    timer: {
      rtc: { tickPolicy: "catchup", track: "guest" },
      pit: { tickPolicy: "delay" },
      hpet: { present: false },
      kvm: { present: false },
      hyperv: { present: false },
    },
  },
};

const FEATURES: Partial<Domain> = {
  features: {
    apic: { endOfInterrupt: true },
    kvm: { hidden: true },
    pvspinlock: { enabled: false },
    smm: {},
  },
};

const efi = (secureBoot: boolean): Partial<Domain> => ({
  firmware: { bootloader: { efi: { secureBoot } } },
  features: { smm: {} },
});

/** libvirt 9.0 and QEMU 7.2 start all of them under emulation. */
export const SHAPES: readonly Shape[] = [
  shape("nothing but what every VM has", {}),
  shape("nothing at all", { autoattachGraphicsDevice: false, autoattachSerialConsole: false }),
  shape("every device", EVERY_DEVICE),
  shape("every device on pc", EVERY_DEVICE, { machine: { type: "pc" } }),
  shape("a disk with everything said of it", { disks: [DISK] }),
  shape("more disks than a SATA controller has ports", { disks: disksOn("sata", 8) }),
  shape("as many on pc", { disks: disksOn("sata", 8) }, { machine: { type: "pc" } }),
  shape("more SCSI disks than one letter names", { disks: disksOn("scsi", 30) }),
  shape(
    "threads for disks",
    { disks: [...disksOn("virtio", 2), ...disksOn("scsi", 1)] },
    {
      ioThreadsPolicy: "auto",
      cpu: { cores: 2 },
    },
  ),
  shape("disks at requested addresses, one in a conventional slot", {
    disks: ["0000:03:01.0", "0000:01:00.0", "0000:03:1f.0"].map((pciAddress, index) => ({
      name: `at${String(index)}`,
      disk: { bus: "virtio", pciAddress },
    })),
  }),
  shape("an identity", {}, IDENTITY),
  shape("a clock with timers", {}, CLOCK),
  shape("a clock of a zone", {}, { clock: { timezone: "Europe/Berlin" } }),
  shape("features", {}, FEATURES),
  shape("a processor with a name", {}, { cpu: { sockets: 2, model: "Nehalem" } }),
  shape("all processors that can be had", {}, { cpu: { threads: 2, model: "host-passthrough" } }),
  shape(
    "features of the processor",
    {},
    {
      cpu: { features: [{ name: "apic" }, { name: "sse4.2", policy: "disable" }] },
    },
  ),
  ...["vga", "bochs", "cirrus", "virtio"].map((type) =>
    shape(`a graphics card ${type}`, { video: { type } }),
  ),
  shape(
    "BIOS that speaks on the console",
    {},
    {
      firmware: { bootloader: { bios: { useSerial: true } } },
    },
  ),
  shape("EFI", { disks: disksOn("virtio", 1) }, efi(false)),
  shape("EFI on pc", { disks: disksOn("virtio", 1) }, { ...efi(false), machine: { type: "pc" } }),
  shape("EFI that boots signed code only", { disks: disksOn("sata", 1) }, efi(true)),
  shape("a TPM", { tpm: {} }),
  shape("a TPM that keeps what it holds", { tpm: { persistent: true } }),
];
