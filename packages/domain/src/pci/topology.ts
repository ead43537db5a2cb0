// SPDX-License-Identifier: Apache-2.0
// Where the ports and the NICs of a new domain go, so that libvirt is never left to guess and nothing ever moves.
import type { MachineFamily, RootPort } from "../definition/domain.ts";
import { findNicModel } from "../nic-model.ts";
import { LAST_SLOT, printPciAddress, slotAddresses, type PciAddress } from "./address.ts";
import { freeVectors, type InterruptUser } from "./interrupts.ts";
import { layoutOf, type FixedDevice } from "./layouts.ts";

/** A NIC that needs a place in the domain's layout. */
export interface NicToPlace extends InterruptUser {
  readonly name: string;
  /** Where it was before, which it keeps. */
  readonly kept?: PciAddress;
  /** Where its owner wants it; goes before `kept`. */
  readonly asked?: PciAddress;
}

/** What a domain is laid out for. */
interface TopologyRequest {
  /** Of the layout's rules. */
  readonly version: number;
  readonly family: MachineFamily;
  readonly vcpus: number;
  /** Ports for NICs that come later; none on `pc`, whose bus takes what its slots take. */
  readonly reserve: number;
  /** In the order of the definition. */
  readonly nics: readonly NicToPlace[];
  /** Whether NICs sit on the root complex, where nothing can be plugged later. */
  readonly onRootComplex: boolean;
}

/** Where everything on PCI is, so that libvirt has nothing left to choose. */
export interface Topology {
  readonly ports: readonly RootPort[];
  /** By name of the NIC. */
  readonly addresses: ReadonlyMap<string, PciAddress>;
  /** Those that the version has. */
  readonly fixed: ReadonlyMap<FixedDevice, PciAddress>;
}

/** Why a domain cannot be laid out. */
export interface TopologyProblem {
  /** The NIC that is concerned; absent: the domain as a whole. */
  readonly nic?: string;
  readonly message: string;
}

/** A layout, or every reason against it. */
export type PlannedTopology =
  | { readonly ok: true; readonly topology: Topology }
  | { readonly ok: false; readonly problems: readonly TopologyProblem[] };

/** First slot for ports and, on `pc`, for NICs: 0 is the host bridge, 1 is left for a display or is PIIX3. Source: QEMU hw/i386/pc_piix.c */
export const FIRST_SLOT = 2;
/** Functions of one slot. Source: PCI Local Bus Specification 3.0 section 3.2.2.3. */
const FUNCTIONS = 8;
/** On q35 the last slot is ICH9's. Source: QEMU hw/i386/pc_q35.c */
const LAST_ROOT_COMPLEX_SLOT = LAST_SLOT - 1;

/** Ports that the root complex has slots for. */
const PORTS_MAX = (LAST_ROOT_COMPLEX_SLOT - FIRST_SLOT + 1) * FUNCTIONS;

/** `count` root ports, eight to a slot. A port's place depends on its index alone: more ports move none. */
function rootPorts(count: number): readonly RootPort[] {
  return Array.from({ length: count }, (_unused, position) => ({
    index: position + 1,
    address: {
      bus: 0,
      slot: FIRST_SLOT + Math.floor(position / FUNCTIONS),
      function: position % FUNCTIONS,
    },
    multifunction: position % FUNCTIONS === 0,
  }));
}

/** Made once: every look at a VM asks for them. */
const PORT_PLACES: readonly PciAddress[] = rootPorts(PORTS_MAX).map(({ index }) => ({
  bus: index,
  slot: 0,
  function: 0,
}));
const PC_PLACES = slotAddresses(0, FIRST_SLOT);
const ROOT_COMPLEX_PLACES = slotAddresses(0, FIRST_SLOT, LAST_ROOT_COMPLEX_SLOT);
/** Ports grow from below, so what must sit beside them comes from above. */
const PLACES_BESIDE_PORTS = ROOT_COMPLEX_PLACES.toReversed();

function hasPorts({ family, onRootComplex }: TopologyRequest): boolean {
  return family === "q35" && !onRootComplex;
}

/** Places that a device without needs of its own may take, best first. */
function usualPlaces(request: TopologyRequest): readonly PciAddress[] {
  if (hasPorts(request)) return PORT_PLACES;
  return request.family === "pc" ? PC_PLACES : ROOT_COMPLEX_PLACES;
}

/** Places that a NIC may take by itself, best first. */
function placesFor(nic: NicToPlace, request: TopologyRequest): readonly PciAddress[] {
  const needsIoPorts = findNicModel(nic.model)?.needsIoPorts === true;
  return needsIoPorts && hasPorts(request) ? PLACES_BESIDE_PORTS : usualPlaces(request);
}

function portProblem(address: PciAddress, onRootComplex: boolean): string | undefined {
  if (onRootComplex) return "the VM has no PCIe ports: its devices are on the root complex";
  if (address.bus > PORTS_MAX) return `the last bus is ${String(PORTS_MAX)}`;
  return address.slot === 0 && address.function === 0
    ? undefined
    : "behind a PCIe port there is slot 0, function 0 only";
}

function slotProblem(address: PciAddress, last: number): string | undefined {
  const inRange = address.slot >= FIRST_SLOT && address.slot <= last;
  return inRange && address.function === 0
    ? undefined
    : `free are slots ${String(FIRST_SLOT)} to ${String(last)}, function 0`;
}

function placeProblem(address: PciAddress, request: TopologyRequest): string | undefined {
  const { family, onRootComplex } = request;
  if (address.bus === 0) {
    return slotProblem(address, family === "pc" ? LAST_SLOT : LAST_ROOT_COMPLEX_SLOT);
  }
  return family === "pc" ? "there is bus 0 only" : portProblem(address, onRootComplex);
}

const SAY_FIXED: Readonly<Record<FixedDevice, string>> = {
  guestAgent: "the channel of the guest's agent",
};

/** Gives every device its place: fixed ones first, then NICs that ask for one, then kept ones, then the others in order. */
class Placement {
  readonly addresses = new Map<string, PciAddress>();
  readonly fixed = new Map<FixedDevice, PciAddress>();
  readonly problems: TopologyProblem[] = [];
  /** By printed address, whose it is. */
  readonly #taken = new Map<string, string>();
  readonly #request: TopologyRequest;

  constructor(request: TopologyRequest) {
    this.#request = request;
  }

  /** Puts the devices that every domain of this version has. */
  fix(devices: readonly FixedDevice[]): void {
    const places = usualPlaces(this.#request);
    for (const [position, device] of devices.entries()) {
      const place = places[position];
      if (place === undefined) continue; // there are more places than fixed devices
      this.fixed.set(device, place);
      this.#taken.set(printPciAddress(place), SAY_FIXED[device]);
    }
  }

  /** Puts a NIC where its owner wants it. */
  ask(nic: NicToPlace, address: PciAddress): void {
    const holder = this.#taken.get(printPciAddress(address));
    const problem = placeProblem(address, this.#request);
    if (problem !== undefined || holder !== undefined) {
      const message = problem ?? `is the address of ${holder ?? ""} too`;
      this.problems.push({ nic: nic.name, message: `${printPciAddress(address)}: ${message}` });
      return;
    }
    this.#take(nic, address);
  }

  /** Puts a NIC where it was; one whose place somebody asked for, or that would not go there any more, gets another. */
  keep(nic: NicToPlace, address: PciAddress): void {
    const printed = printPciAddress(address);
    const fits = placesFor(nic, this.#request).some((place) => printPciAddress(place) === printed);
    if (fits && !this.#taken.has(printed)) this.#take(nic, address);
  }

  /** Puts a NIC in the first free place. */
  find(nic: NicToPlace): void {
    const address = placesFor(nic, this.#request).find(
      (place) => !this.#taken.has(printPciAddress(place)),
    );
    if (address === undefined) {
      this.problems.push({ nic: nic.name, message: "there is no free PCI slot for it" });
      return;
    }
    this.#take(nic, address);
  }

  #take(nic: NicToPlace, address: PciAddress): void {
    this.addresses.set(nic.name, address);
    this.#taken.set(printPciAddress(address), `interface ${nic.name}`);
  }
}

function place(request: TopologyRequest): Placement {
  const placement = new Placement(request);
  placement.fix(layoutOf(request.version).fixedDevices);
  for (const nic of request.nics) if (nic.asked !== undefined) placement.ask(nic, nic.asked);
  const rest = request.nics.filter(({ asked }) => asked === undefined);
  for (const nic of rest) if (nic.kept !== undefined) placement.keep(nic, nic.kept);
  for (const nic of rest) if (!placement.addresses.has(nic.name)) placement.find(nic);
  return placement;
}

/** Slots below the lowest NIC on the root complex are the ports'. */
function roomForPorts(addresses: readonly PciAddress[]): number {
  const slots = addresses.filter(({ bus }) => bus === 0).map(({ slot }) => slot);
  return (Math.min(LAST_ROOT_COMPLEX_SLOT + 1, ...slots) - FIRST_SLOT) * FUNCTIONS;
}

/** Ports up to the last one that a device sits in, and the reserve as far as slots and interrupt vectors go. */
function planPorts(request: TopologyRequest, placement: Placement): readonly RootPort[] {
  if (!hasPorts(request)) return [];
  const addresses = [...placement.fixed.values(), ...placement.addresses.values()];
  const buses = addresses.map(({ bus }) => bus).filter((bus) => bus > 0);
  const needed = Math.max(0, ...buses);
  const room = roomForPorts(addresses);
  const others = placement.fixed.size;
  const vectors = freeVectors(request.vcpus, { ports: 0, others, nics: request.nics });
  if (needed > room) {
    const message = `${String(needed)} PCIe ports take the slots of an interface on bus 0`;
    placement.problems.push({ message });
  }
  if (needed > vectors) {
    const message = `${String(request.nics.length)} interfaces and ${String(needed)} PCIe ports need more interrupt vectors than ${String(request.vcpus)} vCPUs have: give the VM more vCPUs`;
    placement.problems.push({ message });
  }
  return rootPorts(Math.max(needed, Math.min(buses.length + request.reserve, room, vectors)));
}

/** Lays a domain out. The same request gives the same layout; more NICs, ports or restarts move nothing that was kept. */
export function planTopology(request: TopologyRequest): PlannedTopology {
  const placement = place(request);
  const ports = planPorts(request, placement);
  return placement.problems.length > 0
    ? { ok: false, problems: placement.problems }
    : { ok: true, topology: { ports, addresses: placement.addresses, fixed: placement.fixed } };
}
