// SPDX-License-Identifier: Apache-2.0
// Places devices where KubeVirt's launchers placed them, so that a VM taken over from KubeVirt keeps its PCI addresses.
// Source: KubeVirt, documentation of its PCI topology. Order of the devices: libvirt, qemuDomainAssignDevicePCISlots.
import type { PciAddress } from "./addresses.ts";
import type { FixedDevice } from "./topology.ts";

interface KubeVirtMachine {
  /** Names of the NICs, in the order of the VMI's specification. */
  readonly nics: readonly string[];
  readonly devices: readonly FixedDevice[];
  readonly memoryMiB: number;
  /** Number of ports for NICs, used or free. The ports of other devices follow. If unset, KubeVirt's default applies. */
  readonly slotCount?: number;
}

export interface KubeVirtLayout {
  readonly nicAddresses: ReadonlyMap<string, PciAddress>;
  /** Addresses by device. Omits devices that KubeVirt does not place behind a root port. */
  readonly fixedAddresses: ReadonlyMap<FixedDevice, PciAddress>;
  readonly portCount: number;
}

const DEFAULT_SLOT_COUNT = 4;
/** Highest index of a root port that KubeVirt adds. */
const PORT_INDEX_MAX = 31;
/** Maximum memory of a VM to which {@link SMALL} applies. {@link LARGE} applies to a VM with more memory. */
const SMALL_MEMORY_MIB = 2048;
/** `total`: intended number of root ports. `free`: minimum number of free ports; more root ports are added if necessary. */
const SMALL = { total: 8, free: 3 };
const LARGE = { total: 16, free: 6 };

/**
 * Device with a root port in KubeVirt's layout. Patchbay leaves the port of the balloon empty, and also the port of the SCSI controller if
 * the VM has none.
 */
type Occupant = FixedDevice | "balloon";
/** Number of controllers that KubeVirt counts: SCSI, virtio-serial and USB, even if the VM has no USB controller. */
const CONTROLLER_COUNT = 3;

function listOccupants(devices: readonly FixedDevice[]): readonly Occupant[] {
  const named = (prefix: string): readonly FixedDevice[] =>
    devices.filter((device) => device.startsWith(prefix));
  return [
    ...named("usb"),
    "scsi",
    "guestAgent",
    ...named("disk:"),
    "balloon",
    ...named("rng"),
    ...named("input:"),
  ];
}

function countSlots({ nics, slotCount }: KubeVirtMachine): number {
  if (slotCount !== undefined) return Math.max(slotCount, nics.length);
  return nics.length === 0 ? 0 : Math.max(DEFAULT_SLOT_COUNT, nics.length);
}

/** Counts the devices that KubeVirt subtracts from `total` to compute the number of free ports. */
function countDevices({ nics, devices }: KubeVirtMachine): number {
  const counted = listOccupants(devices).filter(
    (device) => !["usb", "scsi", "guestAgent"].includes(device),
  );
  const watchdogs = devices.filter((device) => device === "watchdog");
  return nics.length + CONTROLLER_COUNT + counted.length + watchdogs.length;
}

function toAddress(port: number): PciAddress {
  return { bus: port, slot: 0, function: 0 };
}

/** Plans KubeVirt's layout of version 2 or 3 on a machine with root ports. */
export function planKubeVirtLayout(machine: KubeVirtMachine): KubeVirtLayout {
  const { nics, devices, memoryMiB } = machine;
  const slots = countSlots(machine);
  const occupants = listOccupants(devices);
  const { total, free } = memoryMiB > SMALL_MEMORY_MIB ? LARGE : SMALL;
  const wantedFree = Math.max(total - countDevices(machine), free);
  const used = slots + occupants.length;
  const extra = Math.max(0, wantedFree - (slots - nics.length));
  return {
    nicAddresses: new Map(nics.map((name, index) => [name, toAddress(index + 1)])),
    fixedAddresses: new Map(
      occupants.flatMap((device, index) =>
        device === "balloon" ? [] : [[device, toAddress(slots + index + 1)] as const],
      ),
    ),
    portCount: Math.max(used, Math.min(used + extra, PORT_INDEX_MAX)),
  };
}
