// SPDX-License-Identifier: Apache-2.0
// PCI addresses, and which of them a machine offers for each kind of device.

/** PCI address in domain 0, the only domain in use. Source: libvirt formatdomain, "Device addresses", type pci. */
export interface PciAddress {
  /** Bus number, 0 to 255. On PCIe it is the controller index of the device's port. */
  readonly bus: number;
  readonly slot: number;
  readonly function: number;
}

/** PCIe root port. Its controller index is the number of the bus behind it. */
export interface RootPort {
  readonly index: number;
  readonly address: PciAddress;
  readonly multifunction: boolean;
}

/** Bridge to a conventional PCI bus with slots 1 to 31. Its controller index is the number of that bus. */
export interface PciBridge {
  readonly index: number;
  readonly address: PciAddress;
}

export type MachineFamily = "q35" | "pc";

/**
 * Returns the family, or undefined if Patchbay does not know the machine's PCI layout. Source: QEMU `-machine help`.
 */
export function findMachineFamily(machine: string): MachineFamily | undefined {
  if (machine === "q35" || machine.startsWith("pc-q35-")) return "q35";
  if (machine === "pc" || machine.startsWith("pc-i440fx-")) return "pc";
  return undefined;
}

/** Last slot of a PCI bus. Source: PCI Local Bus Specification 3.0 section 3.2.2.3. */
const LAST_SLOT = 31;

export function slotAddresses(bus: number, first: number, last = LAST_SLOT): readonly PciAddress[] {
  return Array.from({ length: last - first + 1 }, (_unused, position) => ({
    bus,
    slot: first + position,
    function: 0,
  }));
}

const ADDRESS_SYNTAX = /^0000:([0-9a-f]{2}):([01][0-9a-f])\.([0-7])$/;

function hex(value: number, digits: number): string {
  return value.toString(16).padStart(digits, "0");
}

/** Prints the address in lower case, for example `0000:02:00.0`. */
export function printPciAddress(address: PciAddress): string {
  return `0000:${hex(address.bus, 2)}:${hex(address.slot, 2)}.${address.function.toString(16)}`;
}

/** Parses upper or lower case. Returns undefined if the text is malformed or the domain is not 0. */
export function parsePciAddress(text: string): PciAddress | undefined {
  const match = ADDRESS_SYNTAX.exec(text.toLowerCase());
  if (match === null) return undefined;
  const [, bus = "", slot = "", fn = ""] = match;
  return { bus: parseInt(bus, 16), slot: parseInt(slot, 16), function: Number(fn) };
}

export interface Machine {
  readonly family: MachineFamily;
  /** Whether devices are on the root complex, where hot-plug is impossible. */
  readonly isOnRootComplex: boolean;
}

/**
 * First slot for other devices: slot 0 is the host bridge, slot 1 the display or PIIX3. Source: QEMU hw/i386/pc_piix.c
 */
export const FIRST_SLOT = 2;
/** Functions per slot. Source: PCI Local Bus Specification 3.0 section 3.2.2.3. */
export const FUNCTIONS_PER_SLOT = 8;
/** Last slot of q35 for other devices; ICH9 is in the slot behind it. Source: QEMU hw/i386/pc_q35.c */
export const LAST_ROOT_COMPLEX_SLOT = LAST_SLOT - 1;

const PORTS_MAX = (LAST_ROOT_COMPLEX_SLOT - FIRST_SLOT + 1) * FUNCTIONS_PER_SLOT;

/**
 * Returns `count` root ports, eight per slot. A port's address depends on its index only, so adding ports moves none.
 */
export function rootPorts(count: number): readonly RootPort[] {
  return Array.from({ length: count }, (_unused, position) => ({
    index: position + 1,
    address: {
      bus: 0,
      slot: FIRST_SLOT + Math.floor(position / FUNCTIONS_PER_SLOT),
      function: position % FUNCTIONS_PER_SLOT,
    },
    multifunction: position % FUNCTIONS_PER_SLOT === 0,
  }));
}

/** Addresses behind root ports, computed once because every observation of a VM needs them. */
const PORT_ADDRESSES: readonly PciAddress[] = rootPorts(PORTS_MAX).map(({ index }) => ({
  bus: index,
  slot: 0,
  function: 0,
}));
const PC_ADDRESSES = slotAddresses(0, FIRST_SLOT);
const ROOT_COMPLEX_ADDRESSES = slotAddresses(0, FIRST_SLOT, LAST_ROOT_COMPLEX_SLOT);
/** Descending, because ports are allocated from the first slot upwards. */
const ADDRESSES_BESIDE_PORTS = ROOT_COMPLEX_ADDRESSES.toReversed();
const DISPLAY_ADDRESSES = slotAddresses(0, FIRST_SLOT - 1, FIRST_SLOT - 1);

export function hasPorts({ family, isOnRootComplex }: Machine): boolean {
  return family === "q35" && !isOnRootComplex;
}

export function defaultAddresses(machine: Machine): readonly PciAddress[] {
  if (hasPorts(machine)) return PORT_ADDRESSES;
  return machine.family === "pc" ? PC_ADDRESSES : ROOT_COMPLEX_ADDRESSES;
}

/** Returns addresses for devices that need conventional PCI or I/O ports, and so cannot be behind a root port. */
export function addressesBesidePorts(machine: Machine): readonly PciAddress[] {
  return hasPorts(machine) ? ADDRESSES_BESIDE_PORTS : defaultAddresses(machine);
}

/** Returns addresses for the display, which firmware expects on the first bus. */
export function displayAddresses(machine: Machine): readonly PciAddress[] {
  return machine.family === "pc" ? PC_ADDRESSES : DISPLAY_ADDRESSES;
}

/**
 * Returns the address of the bridge to bus `bus`. Firmware numbers buses depth first, so the bus behind a bridge
 * follows the bus of the bridge. Source: SeaBIOS src/fw/pciinit.c, observed with QEMU 7.2.
 */
export function bridgeAddress(bus: number): PciAddress {
  return { bus: bus - 1, slot: 0, function: 0 };
}

export function isBehindBridge({ bus, slot }: PciAddress, machine: Machine): boolean {
  return hasPorts(machine) && bus > 0 && slot > 0;
}

/**
 * Checks whether a conventional bus can replace the root port of this bus. The first of eight ports in a slot cannot be
 * replaced, because firmware ignores a device without function 0. Source: PCI Local Bus Specification 3.0 section
 * 3.2.2.3.4.
 */
function canBeConventional(bus: number): boolean {
  return (bus - 1) % FUNCTIONS_PER_SLOT !== 0;
}

function portProblem(address: PciAddress, isOnRootComplex: boolean): string | undefined {
  const { bus, slot } = address;
  if (isOnRootComplex) return "the VM has no PCIe ports: its devices are on the root complex";
  if (bus > PORTS_MAX) return `the last bus is ${String(PORTS_MAX)}`;
  if (address.function !== 0) return "only function 0 of a slot can be used";
  if (slot === 0 || canBeConventional(bus)) return undefined;
  const [first, last] = [1, LAST_SLOT].map((other) =>
    printPciAddress({ bus: bus + 1, slot: other, function: 0 }),
  );
  return `this bus has only slot 0; use ${first ?? ""} to ${last ?? ""} for a conventional slot`;
}

function slotProblem(address: PciAddress, last: number): string | undefined {
  const isInRange = address.slot >= FIRST_SLOT && address.slot <= last;
  return isInRange && address.function === 0
    ? undefined
    : `only slots ${String(FIRST_SLOT)} to ${String(last)}, function 0, can be used`;
}

export function findAddressProblem(address: PciAddress, machine: Machine): string | undefined {
  const { family, isOnRootComplex } = machine;
  if (address.bus === 0) {
    return slotProblem(address, family === "pc" ? LAST_SLOT : LAST_ROOT_COMPLEX_SLOT);
  }
  return family === "pc" ? "only bus 0 exists" : portProblem(address, isOnRootComplex);
}
