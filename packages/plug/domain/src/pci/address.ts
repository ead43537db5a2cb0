// SPDX-License-Identifier: Apache-2.0
// A PCI address as text and as numbers.

/** Domain 0 only. Source: libvirt formatdomain, "Device addresses", type pci. */
export interface PciAddress {
  /** 0..255; on PCIe the index of the port's controller. */
  readonly bus: number;
  /** 0..31 */
  readonly slot: number;
  /** 0..7 */
  readonly function: number;
}

/** Last slot of a bus. Source: PCI Local Bus Specification 3.0 section 3.2.2.3. */
export const LAST_SLOT = 31;

/** First functions of the slots `first` to `last` of a bus. */
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

/** As statuses and annotations have it, lower case: `0000:02:00.0`. */
export function printPciAddress(address: PciAddress): string {
  return `0000:${hex(address.bus, 2)}:${hex(address.slot, 2)}.${address.function.toString(16)}`;
}

/** Reads what {@link printPciAddress} prints, in either case; undefined when it is none, or not in domain 0. */
export function parsePciAddress(text: string): PciAddress | undefined {
  const match = ADDRESS.exec(text.toLowerCase());
  if (match === null) return undefined;
  const [, bus = "", slot = "", fn = ""] = match;
  return { bus: parseInt(bus, 16), slot: parseInt(slot, 16), function: Number(fn) };
}
