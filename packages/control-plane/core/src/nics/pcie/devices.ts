// SPDX-License-Identifier: Apache-2.0
// PCI devices of a VMI other than NICs, and the addresses recorded at the VM's last start.
import { isAbsent, names, type PcieTopology, type VirtualMachineInstance } from "@patchbay/api";
import { parseKubeVirtPci, parsePcieTopology } from "@patchbay/api/annotations";
import {
  parsePciAddress,
  planKubeVirtLayout,
  type KubeVirtLayout,
  TOPOLOGY_VERSION,
  findLayout,
  findMachineFamily,
  type PciAddress,
  type UnplacedDevice,
  type FixedDevice,
} from "@patchbay/domain";
import { findByName, ifacesOf } from "../nics.ts";
import { listDisks, type GuestDisk } from "../../vm/spec/disks.ts";
import { hasDisplay, listInputs } from "../../vm/spec/guest-devices.ts";
import { buildMachine, computeMemoryMiB } from "../../vm/spec/machine.ts";

const AGENT_CHANNEL: FixedDevice = "guestAgent";

export function readRecordedTopology(vmi: VirtualMachineInstance): PcieTopology | undefined {
  return parsePcieTopology(vmi.metadata.annotations?.[names.PCIE_TOPOLOGY_ANNOTATION]);
}

/**
 * Returns the KubeVirt layout that the VMI's annotations name. Returns undefined if they name none, or if the VM first started with
 * Patchbay's own layout. Patchbay's own layout is recognized by the missing address of the guest agent's channel, which every recorded
 * KubeVirt layout contains.
 */
export function planAnnotatedKubeVirtLayout(
  vmi: VirtualMachineInstance,
): KubeVirtLayout | undefined {
  const annotated = parseKubeVirtPci(vmi.metadata);
  const recorded = readRecordedTopology(vmi);
  const isOwnLayout =
    recorded !== undefined && findByName(recorded.devices, AGENT_CHANNEL) === undefined;
  if (annotated === undefined || isOwnLayout) return undefined;
  const nics = ifacesOf(vmi.spec).filter((iface) => !isAbsent(iface));
  return planKubeVirtLayout({
    ...annotated,
    nics: nics.map(({ name }) => name),
    devices: listDevices(vmi),
    memoryMiB: computeMemoryMiB(vmi.spec.domain),
  });
}

/** Returns the version of the PCI layout at the VM's first start. Before the first start, returns the current version. */
export function readTopologyVersion(vmi: VirtualMachineInstance): number {
  return readRecordedTopology(vmi)?.version ?? TOPOLOGY_VERSION;
}

/** Returns the NICs' addresses at the last start. Before the first start, returns those in the KubeVirt layout that annotations request. */
export function readRecordedNicAddresses(
  vmi: VirtualMachineInstance,
): ReadonlyMap<string, PciAddress> {
  const recorded = readRecordedTopology(vmi);
  if (recorded === undefined) return planAnnotatedKubeVirtLayout(vmi)?.nicAddresses ?? new Map();
  return new Map(
    recorded.interfaces.flatMap(({ name, pciAddress }) => {
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

export function buildDiskDeviceName({ name }: Pick<GuestDisk, "name">): FixedDevice {
  return `disk:${name}`;
}

export function buildInputDeviceName(index: number): FixedDevice {
  return `input:${String(index)}`;
}

/** Returns the name of a SATA controller. Controller 0 is built into machine type q35. */
export function buildSataDeviceName(index: number): FixedDevice {
  return `sata:${String(index)}`;
}

function listSataControllers(
  vmi: VirtualMachineInstance,
  disks: readonly GuestDisk[],
): FixedDevice[] {
  const count = Math.ceil(disks.filter(({ bus }) => bus === "sata").length / SATA_PORTS);
  const all = Array.from({ length: count }, (_unused, index) => buildSataDeviceName(index));
  return findMachineFamily(buildMachine(vmi.spec.domain)) === "q35" ? all.slice(1) : all;
}

function listDevices(vmi: VirtualMachineInstance): readonly FixedDevice[] {
  const { spec } = vmi;
  const { hasKubeVirtDefaults } = findLayout(readTopologyVersion(vmi));
  const disks = listDisks(spec);
  const inputs = listInputs(spec);
  const { rng, watchdog } = spec.domain.devices ?? {};
  const includeIf = (condition: boolean, device: FixedDevice): readonly FixedDevice[] =>
    condition ? [device] : [];
  return [
    ...includeIf(hasDisplay(spec, hasKubeVirtDefaults), "display"),
    ...includeIf(
      inputs.some(({ bus }) => bus === "usb"),
      "usb",
    ),
    ...includeIf(
      disks.some(({ bus }) => bus === "scsi"),
      "scsi",
    ),
    ...listSataControllers(vmi, disks),
    ...disks.filter(({ bus }) => bus === "virtio").map(buildDiskDeviceName),
    ...inputs.flatMap(({ bus }, index) => includeIf(bus === "virtio", buildInputDeviceName(index))),
    ...includeIf(rng !== undefined, "rng"),
    ...includeIf(watchdog !== undefined, "watchdog"),
  ];
}

export function listDevicesToPlace(vmi: VirtualMachineInstance): readonly UnplacedDevice[] {
  const requested = new Map(
    listDisks(vmi.spec).map((disk) => [
      buildDiskDeviceName(disk),
      parseRequestedPciAddress(disk.pciAddress),
    ]),
  );
  const kubeVirtLayout = planAnnotatedKubeVirtLayout(vmi);
  const recordedTopology = readRecordedTopology(vmi);
  const recorded = new Map<string, PciAddress | undefined>(
    recordedTopology === undefined
      ? kubeVirtLayout?.fixedAddresses
      : recordedTopology.devices?.map(({ name, pciAddress }) => [
          name,
          parsePciAddress(pciAddress),
        ]),
  );
  const devices = [...(kubeVirtLayout === undefined ? [] : [AGENT_CHANNEL]), ...listDevices(vmi)];
  return devices.map((name) => {
    const requestedAddress = requested.get(name);
    const recordedAddress = recorded.get(name);
    return {
      name,
      ...(requestedAddress === undefined ? {} : { requested: requestedAddress }),
      ...(recordedAddress === undefined ? {} : { previous: recordedAddress }),
    };
  });
}
