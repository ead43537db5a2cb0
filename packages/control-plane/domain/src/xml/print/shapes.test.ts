// SPDX-License-Identifier: Apache-2.0
// How is everything written that a definition may hold?
import { describe, expect, test } from "vitest";
import type { DiskDefinition, DomainDefinition } from "../../definition.ts";
import { findMachineFamily, type PciAddress } from "../../pci/addresses.ts";
import { PLAIN_MACHINE } from "../../testing/plain-machine.ts";
import { type FixedDevice, planTopology } from "../../pci/topology.ts";
import { printDomain } from "./domain.ts";

const DEVICES = [
  "display",
  "usb",
  "scsi",
  "sata:1",
  "disk:root",
  "input:0",
  "rng",
  "watchdog",
] as const satisfies readonly FixedDevice[];

function disk(more: Partial<DiskDefinition> & Pick<DiskDefinition, "address" | "bus">) {
  return {
    alias: "ua-disk-a",
    source: { kind: "file", path: "/run/disks/a.qcow2", format: "qcow2" },
    device: "disk",
    target: "sda",
    readOnly: false,
    ...more,
  } as const;
}

function disksAt(root: PciAddress): readonly DiskDefinition[] {
  return [
    {
      ...disk({ bus: "virtio", address: { kind: "pci", address: root }, target: "vda" }),
      serial: "S1",
      cache: "none",
      io: "native",
      discard: "unmap",
      errorPolicy: "stop",
      bootOrder: 1,
      ioThread: 2,
      queues: 2,
      isShareable: true,
      blockSize: { logical: 512, physical: 4096, discardGranularity: 65536 },
    },
    disk({
      bus: "scsi",
      device: "lun",
      address: { kind: "drive", controller: 0, unit: 3 },
      source: { kind: "block", path: "/dev/volumes/b", format: "raw" },
    }),
    disk({
      bus: "sata",
      device: "cdrom",
      target: "sdb",
      readOnly: true,
      isTrayOpen: true,
      address: { kind: "drive", controller: 1, unit: 5 },
    }),
  ];
}

function everything(machine: string, more: Partial<DomainDefinition> = {}): DomainDefinition {
  const plan = planTopology({
    version: 3,
    family: findMachineFamily(machine) ?? "q35",
    vcpus: 2,
    reserve: 2,
    devices: DEVICES.map((name) => ({ name })),
    nics: [],
    isOnRootComplex: false,
  });
  if (!plan.ok) throw new Error("no layout");
  const { fixedAddresses: fixed, ports } = plan.topology;
  const at = (device: FixedDevice): PciAddress => {
    const address = fixed.get(device);
    if (address === undefined) throw new Error(`${device} has no place`);
    return address;
  };
  return {
    ...PLAIN_MACHINE,
    name: "default_vm1",
    uuid: "6f1c1a52-7f0c-4c0e-8d36-0a2b1d5b7c11",
    machine,
    ports,
    accelerator: "kvm",
    vcpus: 2,
    memoryMiB: 128,
    sharesMemory: true,
    nics: [],
    ioThreads: 2,
    cpu: {
      topology: { sockets: 1, cores: 2, threads: 1 },
      model: { mode: "custom", name: "Haswell" },
      features: [{ name: "mpx", policy: "disable" }],
    },
    identity: { serial: "M1", chassis: { asset: "a" } },
    features: { acpi: true, apic: true, apicEndOfInterrupt: true, kvmHidden: true, smm: true },
    clock: {
      offset: { kind: "seconds", seconds: 60 },
      timers: [{ name: "rtc", isPresent: true, tickPolicy: "catchup", track: "guest" }],
    },
    controllers: [
      { type: "usb", index: 0, pciAddress: at("usb") },
      { type: "scsi", index: 0, pciAddress: at("scsi"), ioThread: 1 },
      { type: "sata", index: 1, pciAddress: at("sata:1") },
    ],
    disks: disksAt(at("disk:root")),
    inputs: [
      { alias: "ua-input-0", type: "tablet", bus: "virtio", pciAddress: at("input:0") },
      { alias: "ua-input-1", type: "tablet", bus: "usb", port: 2 },
    ],
    agent: { socketPath: "/run/launcher/agent.sock", pciAddress: at("guestAgent") },
    display: {
      socketPath: "/run/launcher/vnc.sock",
      model: "vga",
      memoryKiB: 16384,
      pciAddress: at("display"),
    },
    rng: { pciAddress: at("rng") },
    watchdog: { alias: "ua-watchdog", action: "reset", pciAddress: at("watchdog") },
    tpm: { model: "tpm-crb", isPersistent: true },
    ...more,
  };
}

// What version 3 made is made for ever.
test.each(["q35", "pc"])("a %s with all devices equals its golden file", async (machine) => {
  const file = `../__golden__/${machine}-everything-layout-3.xml`;
  await expect(printDomain(everything(machine))).toMatchFileSnapshot(file);
});

const EFI = {
  kind: "efi",
  codePath: "/code",
  templatePath: "/template",
  variablesPath: "/variables",
} as const;

describe("a domain contains", () => {
  test.each<{ change: Partial<DomainDefinition>; lines: readonly string[] }>([
    {
      change: { firmware: { ...EFI, secureBoot: true } },
      lines: [
        '<loader readonly="yes" secure="yes" type="pflash">/code</loader>',
        '<nvram template="/template">/variables</nvram>',
      ],
    },
    {
      change: { firmware: { ...EFI, secureBoot: false } },
      lines: ['<loader readonly="yes" secure="no" type="pflash">/code</loader>'],
    },
    {
      change: { firmware: { kind: "bios", usesSerial: true } },
      lines: ['<bios useserial="yes"/>'],
    },
    {
      change: { cpu: { model: { mode: "host-model" }, features: [] } },
      lines: ['<cpu mode="host-model"/>'],
    },
    {
      change: { clock: { offset: { kind: "timezone", timezone: "Europe/Berlin" }, timers: [] } },
      lines: ['<clock offset="timezone" timezone="Europe/Berlin"/>'],
    },
    {
      change: { features: { acpi: false, apic: false, pvspinlock: false } },
      lines: ['<pvspinlock state="off"/>'],
    },
    {
      change: { bridges: [{ index: 10, address: { bus: 9, slot: 0, function: 0 } }] },
      lines: ['<controller type="pci" index="10" model="pcie-to-pci-bridge">', 'bus="0x09"'],
    },
    {
      change: { tpm: { model: "tpm-tis", isPersistent: false } },
      lines: ['<tpm model="tpm-tis">'],
    },
  ])("$lines", ({ change, lines }) => {
    const xml = printDomain(everything("q35", change));
    for (const line of lines) expect(xml).toContain(line);
  });

  test("neither ACPI nor APIC if they are disabled", () => {
    const features = { acpi: false, apic: false };
    const xml = printDomain(everything("q35", { features }));
    expect(xml).not.toMatch(/<acpi|<apic/);
  });

  test("no qemu: elements if libvirt's elements suffice", () => {
    expect(printDomain(everything("q35", { disks: [] }))).not.toContain("qemu:");
  });
});
