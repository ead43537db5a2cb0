// SPDX-License-Identifier: Apache-2.0
// Which devices of a VMI that are no NICs need a place on PCI, in the order in which they get theirs.
import {
  names,
  parsePcieTopology,
  type PcieTopology,
  type VirtualMachineInstance,
} from "@patchbay/api";
import {
  parsePciAddress,
  TOPOLOGY_VERSION,
  layoutOf,
  machineFamilyOf,
  type PciAddress,
  type DeviceToPlace,
  type FixedDevice,
} from "@patchbay/domain";
import { disksOf, type GuestDisk } from "../spec/disks.ts";
import { hasDisplay, inputsOf } from "../spec/guest-devices.ts";
import { machineOf } from "../spec/machine.ts";

/** What a VMI was told; undefined when it was told nothing. */
export function keptTopology(vmi: VirtualMachineInstance): PcieTopology | undefined {
  return parsePcieTopology(vmi.metadata.annotations?.[names.PCIE_TOPOLOGY_ANNOTATION]);
}

/** The version of the rules by which a VMI is laid out: that of its VM's first start. */
export function topologyVersionOf(vmi: VirtualMachineInstance): number {
  return keptTopology(vmi)?.version ?? TOPOLOGY_VERSION;
}

/** Where the NICs of a VMI were at the last start, by name of the iface. */
export function keptAddresses(vmi: VirtualMachineInstance): ReadonlyMap<string, PciAddress> {
  return new Map(
    keptTopology(vmi)?.interfaces.flatMap(({ name, pciAddress }) => {
      const address = parsePciAddress(pciAddress);
      return address === undefined ? [] : [[name, address] as const];
    }),
  );
}

/** As a field of the specification has it; KubeVirt's short form leaves the domain out. */
export function askedPciAddress(text: string | undefined): PciAddress | undefined {
  if (text === undefined || text === "") return undefined;
  return parsePciAddress(text.split(":").length === 2 ? `0000:${text}` : text);
}

/** Ports of one SATA controller. Source: QEMU hw/ide/ich.c */
export const SATA_PORTS = 6;

/** How the layout names a disk that is a PCI device of its own. */
export function deviceOfDisk({ name }: Pick<GuestDisk, "name">): FixedDevice {
  return `disk:${name}`;
}

/** How the layout names the input device at that place in the list. */
export function deviceOfInput(index: number): FixedDevice {
  return `input:${String(index)}`;
}

/** How the layout names a SATA controller by its index; q35 has the first by itself. */
export function deviceOfSata(index: number): FixedDevice {
  return `sata:${String(index)}`;
}

function sataControllers(vmi: VirtualMachineInstance, disks: readonly GuestDisk[]): FixedDevice[] {
  const count = Math.ceil(disks.filter(({ bus }) => bus === "sata").length / SATA_PORTS);
  const all = Array.from({ length: count }, (_unused, index) => deviceOfSata(index));
  return machineFamilyOf(machineOf(vmi.spec.domain)) === "q35" ? all.slice(1) : all;
}

function devicesOf(vmi: VirtualMachineInstance): readonly FixedDevice[] {
  const { spec } = vmi;
  const { hasKubeVirtDefaults } = layoutOf(topologyVersionOf(vmi));
  const disks = disksOf(spec);
  const inputs = inputsOf(spec);
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
    ...disks.filter(({ bus }) => bus === "virtio").map(deviceOfDisk),
    ...inputs.flatMap(({ bus }, index) => when(bus === "virtio", deviceOfInput(index))),
    ...when(rng !== undefined, "rng"),
    ...when(watchdog !== undefined, "watchdog"),
  ];
}

/** The devices, each with the address that its owner asks for and the one that it had. */
export function devicesToPlace(vmi: VirtualMachineInstance): readonly DeviceToPlace[] {
  const asks = new Map(
    disksOf(vmi.spec).map((disk) => [deviceOfDisk(disk), askedPciAddress(disk.pciAddress)]),
  );
  const had = new Map(
    keptTopology(vmi)?.devices?.map(({ name, pciAddress }) => [name, parsePciAddress(pciAddress)]),
  );
  return devicesOf(vmi).map((name) => {
    const asked = asks.get(name);
    const kept = had.get(name);
    return {
      name,
      ...(asked === undefined ? {} : { asked }),
      ...(kept === undefined ? {} : { kept }),
    };
  });
}
