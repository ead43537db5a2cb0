// SPDX-License-Identifier: Apache-2.0
// Assigns PCI addresses to the ports and devices of a new domain, so that they are the same at every start.
import {
  type PciBridge,
  type RootPort,
  printPciAddress,
  type PciAddress,
  bridgeAddress,
  displayAddresses,
  FIRST_SLOT,
  FUNCTIONS_PER_SLOT,
  hasPorts,
  isBehindBridge,
  LAST_ROOT_COMPLEX_SLOT,
  findAddressProblem,
  addressesBesidePorts,
  rootPorts,
  defaultAddresses,
  type Machine,
} from "./addresses.ts";
import { findNicModel, freeVectors, type DeviceKind, type InterruptUser } from "./interrupts.ts";

/** Device that is never plugged later. The part after the colon is the device's name. */
export type FixedDevice =
  | "guestAgent"
  | "display"
  | "usb"
  | "scsi"
  | `sata:${string}`
  | "rng"
  | "watchdog"
  | `disk:${string}`
  | `input:${string}`;

/**
 * Rules of a layout version. A VM retains the version of its first start, so entries never change; new rules need a new
 * version.
 */
interface Layout {
  readonly requiredDevices: readonly FixedDevice[];
  /** Whether guest memory is shareable (memfd), which cannot change while the guest runs. */
  readonly sharesMemory: boolean;
  /**
   * Whether unset fields have KubeVirt's defaults: a display, the host's CPU model, an explicit CPU topology, and
   * boot ROMs on bootable NICs. Guests of older versions keep their machine.
   */
  readonly hasKubeVirtDefaults: boolean;
}

export const TOPOLOGY_VERSION = 3;

const NEWEST_LAYOUT: Layout = {
  requiredDevices: ["guestAgent"],
  sharesMemory: true,
  hasKubeVirtDefaults: true,
};

const LAYOUTS: Readonly<Record<number, Layout>> = {
  1: { requiredDevices: [], sharesMemory: true, hasKubeVirtDefaults: false },
  2: { requiredDevices: ["guestAgent"], sharesMemory: true, hasKubeVirtDefaults: false },
  [TOPOLOGY_VERSION]: NEWEST_LAYOUT,
};

/** Returns the rules of a version, the newest ones if a newer Patchbay wrote the version. */
export function findLayout(version: number): Layout {
  return LAYOUTS[version] ?? NEWEST_LAYOUT;
}

interface Preferences {
  readonly previous?: PciAddress;
  /** Address that the VM's specification requests; it takes precedence over `previous`. */
  readonly requested?: PciAddress;
}

export interface UnplacedNic extends InterruptUser, Preferences {
  readonly name: string;
}

export interface UnplacedDevice extends Preferences {
  readonly name: FixedDevice;
}

interface TopologyRequest extends Machine {
  readonly version: number;
  readonly vcpus: number;
  /** Number of free ports to add for hot-plug; unused on `pc`, where every free slot takes a NIC. */
  readonly reserve: number;
  /** Devices in addition to those of the layout. Addresses are assigned in this order, before those of NICs. */
  readonly devices: readonly UnplacedDevice[];
  readonly nics: readonly UnplacedNic[];
}

export interface Topology {
  readonly ports: readonly RootPort[];
  /** Bridges for devices that request a conventional slot. */
  readonly bridges: readonly PciBridge[];
  /** Addresses of NICs, by interface name. */
  readonly nicAddresses: ReadonlyMap<string, PciAddress>;
  readonly fixedAddresses: ReadonlyMap<FixedDevice, PciAddress>;
}

export interface TopologyProblem {
  /** Affected interface. If neither it nor `device` is set, the whole domain is affected. */
  readonly nic?: string;
  readonly device?: FixedDevice;
  readonly message: string;
}

export type PlannedTopology =
  | { readonly ok: true; readonly topology: Topology }
  | { readonly ok: false; readonly problems: readonly TopologyProblem[] };

interface DevicePlacement extends Preferences {
  readonly label: string;
  readonly problem: Omit<TopologyProblem, "message">;
  readonly candidates: readonly PciAddress[];
  assign(address: PciAddress): void;
}

const DEVICE_LABELS: Readonly<Record<string, string>> = {
  guestAgent: "the channel of the guest's agent",
  display: "the display",
  usb: "the USB controller",
  scsi: "the SCSI controller",
  rng: "the source of randomness",
  watchdog: "the watchdog",
};

function labelFixedDevice(device: FixedDevice): string {
  const [kind = "", name = ""] = device.split(":");
  return DEVICE_LABELS[device] ?? `${kind} ${name}`;
}

/**
 * Checks whether the device needs conventional PCI. Source: libvirt formatdomain, "Watchdog devices" and "Controllers".
 */
function isConventional(device: FixedDevice): boolean {
  return device === "watchdog" || device.startsWith("sata:");
}

function deviceAddresses(device: FixedDevice, machine: Machine): readonly PciAddress[] {
  if (device === "display") return displayAddresses(machine);
  return isConventional(device) ? addressesBesidePorts(machine) : defaultAddresses(machine);
}

function nicAddresses(nic: UnplacedNic, machine: Machine): readonly PciAddress[] {
  const needsIoPorts = findNicModel(nic.model)?.needsIoPorts === true;
  return needsIoPorts ? addressesBesidePorts(machine) : defaultAddresses(machine);
}

/** Assigns addresses: requested ones first, then previous ones, then the remaining devices in order. */
class Placement {
  readonly addresses = new Map<string, PciAddress>();
  readonly fixed = new Map<FixedDevice, PciAddress>();
  readonly problems: TopologyProblem[] = [];
  readonly bridges = new Map<number, PciBridge>();
  readonly #ownerByAddress = new Map<string, string>();
  readonly #placed = new Set<DevicePlacement>();
  readonly #machine: Machine;

  constructor(machine: Machine) {
    this.#machine = machine;
  }

  nic(nic: UnplacedNic): DevicePlacement {
    const assign = (address: PciAddress): void => void this.addresses.set(nic.name, address);
    const candidates = nicAddresses(nic, this.#machine);
    return {
      ...nic,
      label: `interface ${nic.name}`,
      problem: { nic: nic.name },
      candidates,
      assign,
    };
  }

  device(device: UnplacedDevice): DevicePlacement {
    const { name } = device;
    const assign = (address: PciAddress): void => void this.fixed.set(name, address);
    const candidates = deviceAddresses(name, this.#machine);
    return {
      ...device,
      label: labelFixedDevice(name),
      problem: { device: name },
      candidates,
      assign,
    };
  }

  place(placements: readonly DevicePlacement[]): void {
    const requesting = placements.filter(({ requested }) => requested !== undefined);
    for (const placement of requesting) this.#placeRequested(placement);
    const unrequested = placements.filter(({ requested }) => requested === undefined);
    for (const placement of unrequested) this.#placePrevious(placement);
    for (const placement of unrequested)
      if (!this.#placed.has(placement)) this.#placeFirstFree(placement);
  }

  #placeRequested(placement: DevicePlacement): void {
    const { requested } = placement;
    if (requested === undefined) return;
    const problem = this.#findRequestProblem(requested);
    if (problem === undefined) this.#assign(placement, requested);
    else this.report(placement, problem);
  }

  #findRequestProblem(requested: PciAddress): string | undefined {
    const problem = findAddressProblem(requested, this.#machine);
    if (problem !== undefined) return problem;
    const holder = this.#ownerByAddress.get(printPciAddress(requested));
    if (holder !== undefined) return `is also the address of ${holder}`;
    return isBehindBridge(requested, this.#machine) ? this.#addBridge(requested.bus) : undefined;
  }

  #addBridge(bus: number): string | undefined {
    if (this.bridges.has(bus)) return undefined;
    const address = bridgeAddress(bus);
    // The bridge occupies slot 0 of its bus. The root port of this bus is omitted.
    const needed = [address, { bus, slot: 0, function: 0 }].map(printPciAddress);
    for (const place of needed) {
      const holder = this.#ownerByAddress.get(place);
      if (holder !== undefined) return `its PCI bridge needs ${place}, the address of ${holder}`;
    }
    for (const place of needed)
      this.#ownerByAddress.set(place, "the PCI bridge of a conventional slot");
    this.bridges.set(bus, { index: bus, address });
    return undefined;
  }

  report(
    { requested, problem }: Pick<DevicePlacement, "requested" | "problem">,
    text: string,
  ): void {
    const prefix = requested === undefined ? "" : `${printPciAddress(requested)}: `;
    this.problems.push({ ...problem, message: `${prefix}${text}` });
  }

  /** Assigns the previous address, unless it is in use or no longer suits the device. */
  #placePrevious(placement: DevicePlacement): void {
    if (placement.previous === undefined) return;
    const printed = printPciAddress(placement.previous);
    // A device keeps its conventional slot as long as the bus exists.
    const isBridged = placement.previous.slot > 0 && this.bridges.has(placement.previous.bus);
    const fits =
      isBridged || placement.candidates.some((place) => printPciAddress(place) === printed);
    if (fits && !this.#ownerByAddress.has(printed)) this.#assign(placement, placement.previous);
  }

  #placeFirstFree(placement: DevicePlacement): void {
    const address = placement.candidates.find(
      (place) => !this.#ownerByAddress.has(printPciAddress(place)),
    );
    if (address === undefined) {
      this.report(placement, "there is no free PCI slot for it");
      return;
    }
    this.#assign(placement, address);
  }

  #assign(placement: DevicePlacement, address: PciAddress): void {
    placement.assign(address);
    this.#placed.add(placement);
    this.#ownerByAddress.set(printPciAddress(address), placement.label);
  }
}

function placeDevices(request: TopologyRequest): Placement {
  const placement = new Placement(request);
  const { requiredDevices } = findLayout(request.version);
  const devices = [...requiredDevices.map((name) => ({ name })), ...request.devices];
  placement.place([
    ...devices.map((device) => placement.device(device)),
    ...request.nics.map((nic) => placement.nic(nic)),
  ]);
  return placement;
}

function devicesInSlots(
  { devices, nics }: TopologyRequest,
  slots: number,
): readonly Pick<DevicePlacement, "requested" | "problem">[] {
  const all = [
    ...devices.map(({ requested, name }) => ({ requested, problem: { device: name } })),
    ...nics.map(({ requested, name }) => ({ requested, problem: { nic: name } })),
  ];
  return all.flatMap(({ requested, problem }) =>
    requested?.bus === 0 && requested.slot < FIRST_SLOT + slots ? [{ requested, problem }] : [],
  );
}

function reportTooFewSlots(request: TopologyRequest, placement: Placement, needed: number): void {
  const slots = Math.ceil(needed / FUNCTIONS_PER_SLOT);
  const conflicting = devicesInSlots(request, slots);
  const first = FIRST_SLOT + slots;
  const ports = `${String(needed)} PCIe ports`;
  for (const device of conflicting) {
    const problem = `${ports} take the slots of bus 0 below ${String(first)}; use a slot from ${String(first)} to ${String(LAST_ROOT_COMPLEX_SLOT)}, or another bus`;
    placement.report(device, problem);
  }
  if (conflicting.length > 0) return;
  placement.problems.push({ message: `${ports} take the slots of a device on bus 0` });
}

function countPortsThatFit(addresses: readonly PciAddress[]): number {
  const slots = addresses
    .filter(({ bus, slot }) => bus === 0 && slot >= FIRST_SLOT)
    .map(({ slot }) => slot);
  return (Math.min(LAST_ROOT_COMPLEX_SLOT + 1, ...slots) - FIRST_SLOT) * FUNCTIONS_PER_SLOT;
}

const DEVICE_KINDS: Readonly<Record<string, DeviceKind>> = {
  disk: "disk",
  scsi: "scsi",
  usb: "usb",
  input: "input",
  sata: "plain",
  display: "plain",
  watchdog: "plain",
};

function findKind(device: FixedDevice): DeviceKind {
  return DEVICE_KINDS[device.split(":")[0] ?? ""] ?? "other";
}

/** Plans ports up to the last used one, and adds the reserve as far as slots and interrupt vectors suffice. */
function planPorts(request: TopologyRequest, placement: Placement): readonly RootPort[] {
  if (!hasPorts(request)) return [];
  const { fixed, bridges } = placement;
  const addresses = [...fixed.values(), ...placement.addresses.values()];
  const portAddresses = addresses.filter(({ bus, slot }) => bus > 0 && slot === 0);
  // A bridge uses the bus of its port, and its own bus, whose port is omitted.
  const buses = [
    ...portAddresses.map(({ bus }) => bus),
    ...[...bridges.keys()].flatMap((bus) => [bus - 1, bus]),
  ];
  const needed = Math.max(0, ...buses);
  const portLimit = countPortsThatFit(addresses);
  const devices = [...fixed.keys()].map(findKind);
  const vectors = freeVectors(request.vcpus, { ports: 0, devices, nics: request.nics });
  if (needed > portLimit) reportTooFewSlots(request, placement, needed);
  if (needed > vectors) {
    const message = `${String(request.nics.length)} interfaces and ${String(needed)} PCIe ports need more interrupt vectors than ${String(request.vcpus)} vCPUs have: give the VM more vCPUs`;
    placement.problems.push({ message });
  }
  const count = Math.max(needed, Math.min(buses.length + request.reserve, portLimit, vectors));
  return rootPorts(count).filter(({ index }) => !bridges.has(index));
}

/**
 * Lays out a domain deterministically. Devices with a previous address keep it when devices are added or the VM
 * restarts.
 */
export function planTopology(request: TopologyRequest): PlannedTopology {
  const placement = placeDevices(request);
  const ports = planPorts(request, placement);
  const { problems, addresses, fixed, bridges } = placement;
  return problems.length > 0
    ? { ok: false, problems }
    : {
        ok: true,
        topology: {
          ports,
          bridges: [...bridges.values()],
          nicAddresses: addresses,
          fixedAddresses: fixed,
        },
      };
}
