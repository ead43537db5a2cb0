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

function hex(value: number, digits: number): string {
  return value.toString(16).padStart(digits, "0");
}

/** For example `0000:02:00.0`. */
export function printPciAddress(address: PciAddress): string {
  return `0000:${hex(address.bus, 2)}:${hex(address.slot, 2)}.${address.function.toString(16)}`;
}
