// SPDX-License-Identifier: Apache-2.0
// PCI devices of a VMI other than NICs, and the addresses recorded at the VM's last start.
import { names, type PcieTopology, type VirtualMachineInstance } from "@patchbay/api";
import { parsePcieTopology } from "@patchbay/api/annotations";
import {
  parsePciAddress,
  TOPOLOGY_VERSION,
  findLayout,
  findMachineFamily,
  type PciAddress,
  type UnplacedDevice,
  type FixedDevice,
} from "@patchbay/domain";
import { listDisks, type GuestDisk } from "../../vm/spec/disks.ts";
import { hasDisplay, listInputs } from "../../vm/spec/guest-devices.ts";
import { buildMachine } from "../../vm/spec/machine.ts";

export function readRecordedTopology(vmi: VirtualMachineInstance): PcieTopology | undefined {
  return parsePcieTopology(vmi.metadata.annotations?.[names.PCIE_TOPOLOGY_ANNOTATION]);
}

/** Returns the layout version of the VM's first start, so that guests retain their addresses. */
export function readTopologyVersion(vmi: VirtualMachineInstance): number {
  return readRecordedTopology(vmi)?.version ?? TOPOLOGY_VERSION;
}

export function recordedNicAddresses(vmi: VirtualMachineInstance): ReadonlyMap<string, PciAddress> {
  return new Map(
    readRecordedTopology(vmi)?.interfaces.flatMap(({ name, pciAddress }) => {
      const address = parsePciAddress(pciAddress);
      return address === undefined ? [] : [[name, address] as const];
    }),
  );
}

/** Parses a requested PCI address. KubeVirt's short form omits the PCI domain. */
export function parseRequestedPciAddress(text: string | undefined): PciAddress | undefined {
  if (text === undefined || text === "") return undefined;
  return parsePciAddress(text.split(":").length === 2 ? `0000:${text}` : text);
}

/** Number of ports of a SATA controller. Source: QEMU hw/ide/ich.c */
export const SATA_PORTS = 6;

export function diskDeviceName({ name }: Pick<GuestDisk, "name">): FixedDevice {
  return `disk:${name}`;
}

export function inputDeviceName(index: number): FixedDevice {
  return `input:${String(index)}`;
}

/** Returns the name of a SATA controller. Controller 0 is built into machine type q35. */
export function sataDeviceName(index: number): FixedDevice {
  return `sata:${String(index)}`;
}

function sataControllers(vmi: VirtualMachineInstance, disks: readonly GuestDisk[]): FixedDevice[] {
  const count = Math.ceil(disks.filter(({ bus }) => bus === "sata").length / SATA_PORTS);
  const all = Array.from({ length: count }, (_unused, index) => sataDeviceName(index));
  return findMachineFamily(buildMachine(vmi.spec.domain)) === "q35" ? all.slice(1) : all;
}

function listDevices(vmi: VirtualMachineInstance): readonly FixedDevice[] {
  const { spec } = vmi;
  const { hasKubeVirtDefaults } = findLayout(readTopologyVersion(vmi));
  const disks = listDisks(spec);
  const inputs = listInputs(spec);
  const { rng, watchdog } = spec.domain.devices ?? {};
  const when = (condition: boolean, device: FixedDevice): readonly FixedDevice[] =>
    condition ? [device] : [];
  return [
    ...when(hasDisplay(spec, hasKubeVirtDefaults), "display"),
    ...when(
      inputs.some(({ bus }) => bus === "usb"),
      "usb",
    ),
    ...when(
      disks.some(({ bus }) => bus === "scsi"),
      "scsi",
    ),
    ...sataControllers(vmi, disks),
    ...disks.filter(({ bus }) => bus === "virtio").map(diskDeviceName),
    ...inputs.flatMap(({ bus }, index) => when(bus === "virtio", inputDeviceName(index))),
    ...when(rng !== undefined, "rng"),
    ...when(watchdog !== undefined, "watchdog"),
  ];
}

export function devicesToPlace(vmi: VirtualMachineInstance): readonly UnplacedDevice[] {
  const requested = new Map(
    listDisks(vmi.spec).map((disk) => [
      diskDeviceName(disk),
      parseRequestedPciAddress(disk.pciAddress),
    ]),
  );
  const recorded = new Map(
    readRecordedTopology(vmi)?.devices?.map(({ name, pciAddress }) => [
      name,
      parsePciAddress(pciAddress),
    ]),
  );
  return listDevices(vmi).map((name) => {
    const requestedAddress = requested.get(name);
    const recordedAddress = recorded.get(name);
    return {
      name,
      ...(requestedAddress === undefined ? {} : { requested: requestedAddress }),
      ...(recordedAddress === undefined ? {} : { previous: recordedAddress }),
    };
  });
}
