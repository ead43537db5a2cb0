// SPDX-License-Identifier: Apache-2.0
// Where the ports and the devices of a new domain go, so that libvirt is never left to guess and nothing ever moves.
import type { PciBridge, RootPort } from "../definition.ts";
import { findNicModel, freeVectors, type DeviceKind, type InterruptUser } from "./interrupts.ts";
import {
  printPciAddress,
  type PciAddress,
  bridgeAddress,
  displayPlaces,
  FIRST_SLOT,
  FUNCTIONS,
  hasPorts,
  isBehindBridge,
  LAST_ROOT_COMPLEX_SLOT,
  placeProblem,
  placesBesidePorts,
  rootPorts,
  usualPlaces,
  type Machine,
} from "./addresses.ts";

/** Devices that are defined once and then stay; what follows a colon says which of them. */
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

/** The rules of one version. */
interface Layout {
  /** What every domain has, in the first places. */
  readonly always: readonly FixedDevice[];
  /** Whether the guest's memory can be shared with other processes (memfd), which cannot be changed while it runs. */
  readonly sharesMemory: boolean;
  /**
   * Whether what a VM says nothing of is as KubeVirt has it: a display, the host's processor model, the topology of the
   * processors told, boot ROMs on NICs that are booted from. Guests of older versions keep the machine that they know.
   */
  readonly hasKubeVirtDefaults: boolean;
}

/** The version for domains that start for the first time. */
export const TOPOLOGY_VERSION = 3;

const NEWEST: Layout = { always: ["guestAgent"], sharesMemory: true, hasKubeVirtDefaults: true };

const LAYOUTS: Readonly<Record<number, Layout>> = {
  1: { always: [], sharesMemory: true, hasKubeVirtDefaults: false },
  2: { always: ["guestAgent"], sharesMemory: true, hasKubeVirtDefaults: false },
  [TOPOLOGY_VERSION]: NEWEST,
};

/** The rules of a version; of one that is not known, which a newer Patchbay gave, the newest that are. */
export function layoutOf(version: number): Layout {
  return LAYOUTS[version] ?? NEWEST;
}

/** What a device was promised. */
interface Preferences {
  /** Where it was before, which it keeps. */
  readonly kept?: PciAddress;
  /** Where its owner wants it; goes before `kept`. */
  readonly asked?: PciAddress;
}

/** A NIC that needs a place in the domain's layout. */
export interface NicToPlace extends InterruptUser, Preferences {
  readonly name: string;
}

/** A device that is no NIC and needs a place. */
export interface DeviceToPlace extends Preferences {
  readonly name: FixedDevice;
}

/** What a domain is laid out for. */
interface TopologyRequest extends Machine {
  /** Of the layout's rules. */
  readonly version: number;
  readonly vcpus: number;
  /** Ports for NICs that come later; none on `pc`, whose bus takes what its slots take. */
  readonly reserve: number;
  /** Beside those that the version has by itself, in the order of their places, which come before those of NICs. */
  readonly devices: readonly DeviceToPlace[];
  /** In the order of the definition. */
  readonly nics: readonly NicToPlace[];
}

/** Where everything on PCI is, so that libvirt has nothing left to choose. */
export interface Topology {
  readonly ports: readonly RootPort[];
  /** For devices that request a conventional slot. */
  readonly bridges: readonly PciBridge[];
  /** By name of the NIC. */
  readonly addresses: ReadonlyMap<string, PciAddress>;
  /** Of devices that are no NICs. */
  readonly fixed: ReadonlyMap<FixedDevice, PciAddress>;
}

/** Why a domain cannot be laid out. */
export interface TopologyProblem {
  /** The NIC that is concerned. */
  readonly nic?: string;
  /** The other device that is concerned; neither: the domain as a whole. */
  readonly device?: FixedDevice;
  readonly message: string;
}

/** A layout, or every reason against it. */
export type PlannedTopology =
  | { readonly ok: true; readonly topology: Topology }
  | { readonly ok: false; readonly problems: readonly TopologyProblem[] };

/** What is placed, whatever it is. */
interface Guest extends Preferences {
  readonly says: string;
  readonly of: Omit<TopologyProblem, "message">;
  readonly places: readonly PciAddress[];
  take(address: PciAddress): void;
}

const SAYS: Readonly<Record<string, string>> = {
  guestAgent: "the channel of the guest's agent",
  display: "the display",
  usb: "the USB controller",
  scsi: "the SCSI controller",
  rng: "the source of randomness",
  watchdog: "the watchdog",
};

function sayFixed(device: FixedDevice): string {
  const [kind = "", name = ""] = device.split(":");
  return SAYS[device] ?? `${kind} ${name}`;
}

/** What sits on conventional PCI. Source: libvirt formatdomain, "Watchdog devices" and "Controllers". */
function isConventional(device: FixedDevice): boolean {
  return device === "watchdog" || device.startsWith("sata:");
}

function devicePlaces(device: FixedDevice, machine: Machine): readonly PciAddress[] {
  if (device === "display") return displayPlaces(machine);
  return isConventional(device) ? placesBesidePorts(machine) : usualPlaces(machine);
}

function nicPlaces(nic: NicToPlace, machine: Machine): readonly PciAddress[] {
  const needsIoPorts = findNicModel(nic.model)?.needsIoPorts === true;
  return needsIoPorts ? placesBesidePorts(machine) : usualPlaces(machine);
}

/** Gives places: those that are asked for first, then kept ones, then the others in order. */
class Placement {
  readonly addresses = new Map<string, PciAddress>();
  readonly fixed = new Map<FixedDevice, PciAddress>();
  readonly problems: TopologyProblem[] = [];
  /** By bus. */
  readonly bridges = new Map<number, PciBridge>();
  /** By printed address, whose it is. */
  readonly #taken = new Map<string, string>();
  readonly #placed = new Set<Guest>();
  readonly #machine: Machine;

  constructor(machine: Machine) {
    this.#machine = machine;
  }

  /** A NIC that is to be placed. */
  nic(nic: NicToPlace): Guest {
    const take = (address: PciAddress): void => void this.addresses.set(nic.name, address);
    const places = nicPlaces(nic, this.#machine);
    return { ...nic, says: `interface ${nic.name}`, of: { nic: nic.name }, places, take };
  }

  /** Another device that is to be placed. */
  device(device: DeviceToPlace): Guest {
    const { name } = device;
    const take = (address: PciAddress): void => void this.fixed.set(name, address);
    const places = devicePlaces(name, this.#machine);
    return { ...device, says: sayFixed(name), of: { device: name }, places, take };
  }

  place(guests: readonly Guest[]): void {
    const asking = guests.filter(({ asked }) => asked !== undefined);
    for (const guest of asking) this.#ask(guest);
    const rest = guests.filter(({ asked }) => asked === undefined);
    for (const guest of rest) this.#keep(guest);
    for (const guest of rest) if (!this.#placed.has(guest)) this.#find(guest);
  }

  /** Puts a device where its owner wants it. */
  #ask(guest: Guest): void {
    const { asked } = guest;
    if (asked === undefined) return;
    const problem = this.#askProblem(asked);
    if (problem === undefined) this.#take(guest, asked);
    else this.refuse(guest, problem);
  }

  #askProblem(asked: PciAddress): string | undefined {
    const problem = placeProblem(asked, this.#machine);
    if (problem !== undefined) return problem;
    const holder = this.#taken.get(printPciAddress(asked));
    if (holder !== undefined) return `is also the address of ${holder}`;
    return isBehindBridge(asked, this.#machine) ? this.#addBridge(asked.bus) : undefined;
  }

  /** Makes a bus conventional; the reason why it cannot be. */
  #addBridge(bus: number): string | undefined {
    if (this.bridges.has(bus)) return undefined;
    const address = bridgeAddress(bus);
    // Slot 0 of the bus is the bridge's own, and its port is left out.
    const needed = [address, { bus, slot: 0, function: 0 }].map(printPciAddress);
    for (const place of needed) {
      const holder = this.#taken.get(place);
      if (holder !== undefined) return `its PCI bridge needs ${place}, the address of ${holder}`;
    }
    for (const place of needed) this.#taken.set(place, "the PCI bridge of a conventional slot");
    this.bridges.set(bus, { index: bus, address });
    return undefined;
  }

  /** Reports that a device cannot be where its owner wants it. */
  refuse({ asked, of }: Pick<Guest, "asked" | "of">, problem: string): void {
    const at = asked === undefined ? "" : `${printPciAddress(asked)}: `;
    this.problems.push({ ...of, message: `${at}${problem}` });
  }

  /** Puts a device where it was; one whose place somebody asked for, or that would not go there any more, gets another. */
  #keep(guest: Guest): void {
    if (guest.kept === undefined) return;
    const printed = printPciAddress(guest.kept);
    // A NIC that was plugged into a conventional slot stays there as long as its bus does.
    const isBridged = guest.kept.slot > 0 && this.bridges.has(guest.kept.bus);
    const fits = isBridged || guest.places.some((place) => printPciAddress(place) === printed);
    if (fits && !this.#taken.has(printed)) this.#take(guest, guest.kept);
  }

  /** Puts a device in the first free place. */
  #find(guest: Guest): void {
    const address = guest.places.find((place) => !this.#taken.has(printPciAddress(place)));
    if (address === undefined) {
      this.refuse(guest, "there is no free PCI slot for it");
      return;
    }
    this.#take(guest, address);
  }

  #take(guest: Guest, address: PciAddress): void {
    guest.take(address);
    this.#placed.add(guest);
    this.#taken.set(printPciAddress(address), guest.says);
  }
}

function place(request: TopologyRequest): Placement {
  const placement = new Placement(request);
  const { always } = layoutOf(request.version);
  const devices = [...always.map((name) => ({ name })), ...request.devices];
  placement.place([
    ...devices.map((device) => placement.device(device)),
    ...request.nics.map((nic) => placement.nic(nic)),
  ]);
  return placement;
}

/** Devices whose owners put them into slots of bus 0 that the ports need. */
function devicesInSlots(
  { devices, nics }: TopologyRequest,
  slots: number,
): readonly Pick<Guest, "asked" | "of">[] {
  const all = [
    ...devices.map(({ asked, name }) => ({ asked, of: { device: name } })),
    ...nics.map(({ asked, name }) => ({ asked, of: { nic: name } })),
  ];
  return all.flatMap(({ asked, of }) =>
    asked?.bus === 0 && asked.slot < FIRST_SLOT + slots ? [{ asked, of }] : [],
  );
}

/** Refuses what leaves too few slots of bus 0 to the ports. */
function refuseNarrow(request: TopologyRequest, placement: Placement, needed: number): void {
  const slots = Math.ceil(needed / FUNCTIONS);
  const inWay = devicesInSlots(request, slots);
  const first = FIRST_SLOT + slots;
  const ports = `${String(needed)} PCIe ports`;
  for (const device of inWay) {
    const problem = `${ports} take the slots of bus 0 below ${String(first)}; use a slot from ${String(first)} to ${String(LAST_ROOT_COMPLEX_SLOT)}, or another bus`;
    placement.refuse(device, problem);
  }
  if (inWay.length > 0) return;
  placement.problems.push({ message: `${ports} take the slots of a device on bus 0` });
}

/** Slots below the lowest device beside the ports are the ports'. */
function roomForPorts(addresses: readonly PciAddress[]): number {
  const slots = addresses
    .filter(({ bus, slot }) => bus === 0 && slot >= FIRST_SLOT)
    .map(({ slot }) => slot);
  return (Math.min(LAST_ROOT_COMPLEX_SLOT + 1, ...slots) - FIRST_SLOT) * FUNCTIONS;
}

const KINDS: Readonly<Record<string, DeviceKind>> = {
  disk: "disk",
  scsi: "scsi",
  usb: "usb",
  input: "input",
  sata: "plain",
  display: "plain",
  watchdog: "plain",
};

function kindOf(device: FixedDevice): DeviceKind {
  return KINDS[device.split(":")[0] ?? ""] ?? "other";
}

/** Ports up to the last one that a device sits in, and the reserve as far as slots and interrupt vectors go. */
function planPorts(request: TopologyRequest, placement: Placement): readonly RootPort[] {
  if (!hasPorts(request)) return [];
  const { fixed, bridges } = placement;
  const addresses = [...fixed.values(), ...placement.addresses.values()];
  const inPorts = addresses.filter(({ bus, slot }) => bus > 0 && slot === 0);
  // A bridge has two buses: that of its port, and its own, whose port is left out.
  const buses = [
    ...inPorts.map(({ bus }) => bus),
    ...[...bridges.keys()].flatMap((bus) => [bus - 1, bus]),
  ];
  const needed = Math.max(0, ...buses);
  const room = roomForPorts(addresses);
  const devices = [...fixed.keys()].map(kindOf);
  const vectors = freeVectors(request.vcpus, { ports: 0, devices, nics: request.nics });
  if (needed > room) refuseNarrow(request, placement, needed);
  if (needed > vectors) {
    const message = `${String(request.nics.length)} interfaces and ${String(needed)} PCIe ports need more interrupt vectors than ${String(request.vcpus)} vCPUs have: give the VM more vCPUs`;
    placement.problems.push({ message });
  }
  const count = Math.max(needed, Math.min(buses.length + request.reserve, room, vectors));
  return rootPorts(count).filter(({ index }) => !bridges.has(index));
}

/** Lays a domain out. The same request gives the same layout; more devices, ports or restarts move nothing that was kept. */
export function planTopology(request: TopologyRequest): PlannedTopology {
  const placement = place(request);
  const ports = planPorts(request, placement);
  const { problems, addresses, fixed, bridges } = placement;
  return problems.length > 0
    ? { ok: false, problems }
    : { ok: true, topology: { ports, bridges: [...bridges.values()], addresses, fixed } };
}
