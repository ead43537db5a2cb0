// SPDX-License-Identifier: Apache-2.0
// Where the ports and the fixed NICs of a new domain go, so that libvirt is never left to guess.
import type { MachineFamily } from "../definition.ts";
import type { PciAddress } from "./address.ts";

/** A PCIe root port: its controller index is the number of the bus behind it. */
export interface RootPort {
  readonly index: number;
  readonly address: PciAddress;
  readonly multifunction: boolean;
}

/** First slot of the root complex for ports; 0 is the host bridge, 1 is left for a display. */
const FIRST_PORT_SLOT = 2;
/** Functions of one slot. Source: PCI Local Bus Specification 3.0 section 3.2.2.3. */
const FUNCTIONS = 8;
/** First free slot of i440fx: 0 is the host bridge, 1 PIIX3. Source: QEMU hw/i386/pc_piix.c */
export const PC_FIRST_SLOT = 2;
/** Last slot of a conventional PCI bus. */
export const PC_LAST_SLOT = 31;

/** `count` root ports, eight to a slot. */
export function rootPorts(count: number): readonly RootPort[] {
  return Array.from({ length: count }, (_unused, position) => ({
    index: position + 1,
    address: {
      bus: 0,
      slot: FIRST_PORT_SLOT + Math.floor(position / FUNCTIONS),
      function: position % FUNCTIONS,
    },
    multifunction: position % FUNCTIONS === 0,
  }));
}

/** Address of the fixed NIC at `position` (0, 1, ...). */
export function fixedNicAddress(family: MachineFamily, position: number): PciAddress {
  return family === "q35"
    ? { bus: position + 1, slot: 0, function: 0 }
    : { bus: 0, slot: PC_FIRST_SLOT + position, function: 0 };
}
