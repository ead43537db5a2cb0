// SPDX-License-Identifier: Apache-2.0
// PCI addresses, and those that a machine offers for each kind of device.

/** Domain 0 only. Source: libvirt formatdomain, "Device addresses", type pci. */
export interface PciAddress {
  /** 0..255; on PCIe the index of the port's controller. */
  readonly bus: number;
  readonly slot: number;
  readonly function: number;
}

/** A PCIe root port. Its controller index is the number of the bus behind it. */
export interface RootPort {
  readonly index: number;
  readonly address: PciAddress;
  readonly multifunction: boolean;
}

/** A pcie-to-pci-bridge. Its controller index is the number of its conventional bus, with slots 1 to 31. */
export interface PciBridge {
  readonly index: number;
  readonly address: PciAddress;
}

export type MachineFamily = "q35" | "pc";

/** Returns undefined if Patchbay does not know the PCI layout. Source: QEMU `-machine help`. */
export function findMachineFamily(machine: string): MachineFamily | undefined {
  if (machine === "q35" || machine.startsWith("pc-q35-")) return "q35";
  if (machine === "pc" || machine.startsWith("pc-i440fx-")) return "pc";
  return undefined;
}

/** Source: PCI Local Bus Specification 3.0 section 3.2.2.3. */
const LAST_SLOT = 31;

export function slotAddresses(bus: number, first: number, last = LAST_SLOT): readonly PciAddress[] {
  return Array.from({ length: last - first + 1 }, (_unused, position) => ({
    bus,
    slot: first + position,
    function: 0,
  }));
}

const ADDRESS = /^0000:([0-9a-f]{2}):([01][0-9a-f])\.([0-7])$/;

function hex(value: number, digits: number): string {
  return value.toString(16).padStart(digits, "0");
}

/** Prints lower case, for example `0000:02:00.0`. */
export function printPciAddress(address: PciAddress): string {
  return `0000:${hex(address.bus, 2)}:${hex(address.slot, 2)}.${address.function.toString(16)}`;
}

/** Parses upper or lower case; undefined if malformed or not in domain 0. */
export function parsePciAddress(text: string): PciAddress | undefined {
  const match = ADDRESS.exec(text.toLowerCase());
  if (match === null) return undefined;
  const [, bus = "", slot = "", fn = ""] = match;
  return { bus: parseInt(bus, 16), slot: parseInt(slot, 16), function: Number(fn) };
}

export interface Machine {
  readonly family: MachineFamily;
  /** Places devices on the root complex, where hot-plug is impossible. */
  readonly onRootComplex: boolean;
}

/** Slot 0 is the host bridge, slot 1 the display or PIIX3. Source: QEMU hw/i386/pc_piix.c */
export const FIRST_SLOT = 2;
/** Functions per slot. Source: PCI Local Bus Specification 3.0 section 3.2.2.3. */
export const FUNCTIONS_PER_SLOT = 8;
/** The last slot of q35 is ICH9. Source: QEMU hw/i386/pc_q35.c */
export const LAST_ROOT_COMPLEX_SLOT = LAST_SLOT - 1;

const PORTS_MAX = (LAST_ROOT_COMPLEX_SLOT - FIRST_SLOT + 1) * FUNCTIONS_PER_SLOT;

/** Returns `count` root ports, eight per slot. The address depends on the index only, so adding ports moves none. */
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

/** Computed once, because every observation of a VM needs them. */
const PORT_ADDRESSES: readonly PciAddress[] = rootPorts(PORTS_MAX).map(({ index }) => ({
  bus: index,
  slot: 0,
  function: 0,
}));
const PC_ADDRESSES = slotAddresses(0, FIRST_SLOT);
const ROOT_COMPLEX_ADDRESSES = slotAddresses(0, FIRST_SLOT, LAST_ROOT_COMPLEX_SLOT);
/** From the last slot down, because ports are allocated from the first slot up. */
const ADDRESSES_BESIDE_PORTS = ROOT_COMPLEX_ADDRESSES.toReversed();
const DISPLAY_ADDRESSES = slotAddresses(0, FIRST_SLOT - 1, FIRST_SLOT - 1);

export function hasPorts({ family, onRootComplex }: Machine): boolean {
  return family === "q35" && !onRootComplex;
}

export function defaultAddresses(machine: Machine): readonly PciAddress[] {
  if (hasPorts(machine)) return PORT_ADDRESSES;
  return machine.family === "pc" ? PC_ADDRESSES : ROOT_COMPLEX_ADDRESSES;
}

/** Addresses for devices that cannot be behind a root port: conventional PCI, or with I/O ports. */
export function addressesBesidePorts(machine: Machine): readonly PciAddress[] {
  return hasPorts(machine) ? ADDRESSES_BESIDE_PORTS : defaultAddresses(machine);
}

/** Firmware expects the display on the first bus. */
export function displayAddresses(machine: Machine): readonly PciAddress[] {
  return machine.family === "pc" ? PC_ADDRESSES : DISPLAY_ADDRESSES;
}

/**
 * Firmware numbers buses depth first, so the bus behind a bridge follows the bus of the bridge. Source: SeaBIOS
 * src/fw/pciinit.c, observed with QEMU 7.2.
 */
export function bridgeAddress(bus: number): PciAddress {
  return { bus: bus - 1, slot: 0, function: 0 };
}

export function isBehindBridge({ bus, slot }: PciAddress, machine: Machine): boolean {
  return hasPorts(machine) && bus > 0 && slot > 0;
}

/**
 * A conventional bus replaces a root port. The first of eight ports in a slot cannot be replaced: firmware ignores a
 * device without function 0. Source: PCI Local Bus Specification 3.0 section 3.2.2.3.4.
 */
function canBeConventional(bus: number): boolean {
  return (bus - 1) % FUNCTIONS_PER_SLOT !== 0;
}

function portProblem(address: PciAddress, onRootComplex: boolean): string | undefined {
  const { bus, slot } = address;
  if (onRootComplex) return "the VM has no PCIe ports: its devices are on the root complex";
  if (bus > PORTS_MAX) return `the last bus is ${String(PORTS_MAX)}`;
  if (address.function !== 0) return "only function 0 of a slot can be used";
  if (slot === 0 || canBeConventional(bus)) return undefined;
  const [first, last] = [1, LAST_SLOT].map((other) =>
    printPciAddress({ bus: bus + 1, slot: other, function: 0 }),
  );
  return `this bus has only slot 0; use ${first ?? ""} to ${last ?? ""} for a conventional slot`;
}

function slotProblem(address: PciAddress, last: number): string | undefined {
  const inRange = address.slot >= FIRST_SLOT && address.slot <= last;
  return inRange && address.function === 0
    ? undefined
    : `only slots ${String(FIRST_SLOT)} to ${String(last)}, function 0, can be used`;
}

export function findAddressProblem(address: PciAddress, machine: Machine): string | undefined {
  const { family, onRootComplex } = machine;
  if (address.bus === 0) {
    return slotProblem(address, family === "pc" ? LAST_SLOT : LAST_ROOT_COMPLEX_SLOT);
  }
  return family === "pc" ? "only bus 0 exists" : portProblem(address, onRootComplex);
}
