// SPDX-License-Identifier: Apache-2.0
// PCI addresses, and the addresses that a machine offers for each kind of device.

/** PCI address in PCI domain 0, the only PCI domain in use. Source: libvirt formatdomain, "Device addresses", type pci. */
export interface PciAddress {
  /** Bus number, 0 to 255. On PCIe, the bus number is the controller index of the device's port. */
  readonly bus: number;
  readonly slot: number;
  readonly function: number;
}

/** PCIe root port. Its controller index is the number of its secondary bus. */
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

/** Returns the machine family, or undefined if Patchbay does not support the machine's PCI layout. Source: QEMU `-machine help`. */
export function findMachineFamily(machine: string): MachineFamily | undefined {
  if (machine === "q35" || machine.startsWith("pc-q35-")) return "q35";
  if (machine === "pc" || machine.startsWith("pc-i440fx-")) return "pc";
  return undefined;
}

/** Last slot of a PCI bus. Source: PCI Local Bus Specification 3.0 section 3.2.2.3. */
const LAST_SLOT = 31;

export function listSlotAddresses(
  bus: number,
  firstSlot: number,
  lastSlot = LAST_SLOT,
): readonly PciAddress[] {
  return Array.from({ length: lastSlot - firstSlot + 1 }, (_unused, position) => ({
    bus,
    slot: firstSlot + position,
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

/** Parses an address in upper or lower case. Returns undefined if the text is malformed or the PCI domain is not 0. */
export function parsePciAddress(text: string): PciAddress | undefined {
  const match = ADDRESS_SYNTAX.exec(text.toLowerCase());
  if (match === null) return undefined;
  const [, bus = "", slot = "", fn = ""] = match;
  return { bus: parseInt(bus, 16), slot: parseInt(slot, 16), function: Number(fn) };
}

export interface Machine {
  readonly family: MachineFamily;
  /** Whether devices are on the root complex, which does not support hot-plug. */
  readonly isOnRootComplex: boolean;
}

/** First slot that Patchbay assigns. Slot 0 contains the host bridge, slot 1 the display or PIIX3. Source: QEMU hw/i386/pc_piix.c */
export const FIRST_SLOT = 2;
/** Functions per slot. Source: PCI Local Bus Specification 3.0 section 3.2.2.3. */
export const FUNCTIONS_PER_SLOT = 8;
/** Last slot that Patchbay assigns on q35. The next slot contains ICH9. Source: QEMU hw/i386/pc_q35.c */
export const LAST_ROOT_COMPLEX_SLOT = LAST_SLOT - 1;

const PORTS_MAX = (LAST_ROOT_COMPLEX_SLOT - FIRST_SLOT + 1) * FUNCTIONS_PER_SLOT;

/** Returns `count` root ports, eight per slot. The address of a port depends only on its index, so a larger count changes no address. */
export function buildRootPorts(count: number): readonly RootPort[] {
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

/** Addresses behind root ports. They are computed once, because every observation of a VM needs them. */
const PORT_ADDRESSES: readonly PciAddress[] = buildRootPorts(PORTS_MAX).map(({ index }) => ({
  bus: index,
  slot: 0,
  function: 0,
}));
const PC_ADDRESSES = listSlotAddresses(0, FIRST_SLOT);
const ROOT_COMPLEX_ADDRESSES = listSlotAddresses(0, FIRST_SLOT, LAST_ROOT_COMPLEX_SLOT);
/** Addresses for devices other than root ports. The order is descending, because root ports use the lowest slots. */
const ADDRESSES_BESIDE_PORTS = ROOT_COMPLEX_ADDRESSES.toReversed();
const DISPLAY_ADDRESSES = listSlotAddresses(0, FIRST_SLOT - 1, FIRST_SLOT - 1);

export function hasPorts({ family, isOnRootComplex }: Machine): boolean {
  return family === "q35" && !isOnRootComplex;
}

export function listDefaultAddresses(machine: Machine): readonly PciAddress[] {
  if (hasPorts(machine)) return PORT_ADDRESSES;
  return machine.family === "pc" ? PC_ADDRESSES : ROOT_COMPLEX_ADDRESSES;
}

/** Returns addresses for devices that cannot be behind a root port, because they need conventional PCI or I/O ports. */
export function listAddressesBesidePorts(machine: Machine): readonly PciAddress[] {
  return hasPorts(machine) ? ADDRESSES_BESIDE_PORTS : listDefaultAddresses(machine);
}

/** Returns addresses for the display, which firmware expects on the first bus. */
export function listDisplayAddresses(machine: Machine): readonly PciAddress[] {
  return machine.family === "pc" ? PC_ADDRESSES : DISPLAY_ADDRESSES;
}

/**
 * Returns the address of the bridge whose secondary bus is `bus`. The bridge is on the preceding bus, so that firmware,
 * which numbers buses depth first, assigns this number. Source: SeaBIOS src/fw/pciinit.c, observed with QEMU 7.2.
 */
export function buildBridgeAddress(bus: number): PciAddress {
  return { bus: bus - 1, slot: 0, function: 0 };
}

export function isBehindBridge({ bus, slot }: PciAddress, machine: Machine): boolean {
  return hasPorts(machine) && bus > 0 && slot > 0;
}

/**
 * Checks whether a conventional bus can replace the root port with this bus number. It cannot replace the first port of a slot,
 * because firmware ignores a slot without function 0. Source: PCI Local Bus Specification 3.0 section 3.2.2.3.4.
 */
function canBeConventional(bus: number): boolean {
  return (bus - 1) % FUNCTIONS_PER_SLOT !== 0;
}

function findPortProblem(address: PciAddress, isOnRootComplex: boolean): string | undefined {
  const { bus, slot } = address;
  if (isOnRootComplex) return "the VM has no PCIe ports: its devices are on the root complex";
  if (bus > PORTS_MAX) return `the last bus is ${String(PORTS_MAX)}`;
  if (address.function !== 0) return "only function 0 of a slot can be used";
  if (slot === 0 || canBeConventional(bus)) return undefined;
  const [firstText, lastText] = [1, LAST_SLOT].map((slotNumber) =>
    printPciAddress({ bus: bus + 1, slot: slotNumber, function: 0 }),
  );
  return `this bus has only slot 0; use ${firstText ?? ""} to ${lastText ?? ""} for a conventional slot`;
}

function findSlotProblem(address: PciAddress, lastSlot: number): string | undefined {
  const isInRange = address.slot >= FIRST_SLOT && address.slot <= lastSlot;
  return isInRange && address.function === 0
    ? undefined
    : `only slots ${String(FIRST_SLOT)} to ${String(lastSlot)}, function 0, can be used`;
}

export function findAddressProblem(address: PciAddress, machine: Machine): string | undefined {
  const { family, isOnRootComplex } = machine;
  if (address.bus === 0) {
    return findSlotProblem(address, family === "pc" ? LAST_SLOT : LAST_ROOT_COMPLEX_SLOT);
  }
  return family === "pc" ? "only bus 0 exists" : findPortProblem(address, isOnRootComplex);
}
