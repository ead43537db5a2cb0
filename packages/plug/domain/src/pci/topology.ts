// SPDX-License-Identifier: Apache-2.0
// Where the ports and the devices of a new domain go, so that libvirt is never left to guess and nothing ever moves.
import type { RootPort } from "../definition/domain.ts";
import { findNicModel } from "../nic-model.ts";
import { printPciAddress, type PciAddress } from "./address.ts";
import { freeVectors, type DeviceKind, type InterruptUser } from "./interrupts.ts";
import { layoutOf, type FixedDevice } from "./layouts.ts";
import {
  displayPlaces,
  FIRST_SLOT,
  FUNCTIONS,
  hasPorts,
  LAST_ROOT_COMPLEX_SLOT,
  placeProblem,
  placesBesidePorts,
  rootPorts,
  usualPlaces,
  type Machine,
} from "./places.ts";

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
    const holder = this.#taken.get(printPciAddress(asked));
    const problem = placeProblem(asked, this.#machine);
    if (problem !== undefined || holder !== undefined) {
      const message = problem ?? `is also the address of ${holder ?? ""}`;
      this.problems.push({ ...guest.of, message: `${printPciAddress(asked)}: ${message}` });
      return;
    }
    this.#take(guest, asked);
  }

  /** Puts a device where it was; one whose place somebody asked for, or that would not go there any more, gets another. */
  #keep(guest: Guest): void {
    if (guest.kept === undefined) return;
    const printed = printPciAddress(guest.kept);
    const fits = guest.places.some((place) => printPciAddress(place) === printed);
    if (fits && !this.#taken.has(printed)) this.#take(guest, guest.kept);
  }

  /** Puts a device in the first free place. */
  #find(guest: Guest): void {
    const address = guest.places.find((place) => !this.#taken.has(printPciAddress(place)));
    if (address === undefined) {
      this.problems.push({ ...guest.of, message: "there is no free PCI slot for it" });
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
  placement.place(always.map((name) => placement.device({ name })));
  const devices = request.devices.map((device) => placement.device(device));
  placement.place([...devices, ...request.nics.map((nic) => placement.nic(nic))]);
  return placement;
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
  const addresses = [...placement.fixed.values(), ...placement.addresses.values()];
  const buses = addresses.map(({ bus }) => bus).filter((bus) => bus > 0);
  const needed = Math.max(0, ...buses);
  const room = roomForPorts(addresses);
  const devices = [...placement.fixed.keys()].map(kindOf);
  const vectors = freeVectors(request.vcpus, { ports: 0, devices, nics: request.nics });
  if (needed > room) {
    const message = `${String(needed)} PCIe ports take the slots of a device on bus 0`;
    placement.problems.push({ message });
  }
  if (needed > vectors) {
    const message = `${String(request.nics.length)} interfaces and ${String(needed)} PCIe ports need more interrupt vectors than ${String(request.vcpus)} vCPUs have: give the VM more vCPUs`;
    placement.problems.push({ message });
  }
  return rootPorts(Math.max(needed, Math.min(buses.length + request.reserve, room, vectors)));
}

/** Lays a domain out. The same request gives the same layout; more devices, ports or restarts move nothing that was kept. */
export function planTopology(request: TopologyRequest): PlannedTopology {
  const placement = place(request);
  const ports = planPorts(request, placement);
  return placement.problems.length > 0
    ? { ok: false, problems: placement.problems }
    : { ok: true, topology: { ports, addresses: placement.addresses, fixed: placement.fixed } };
}
