// SPDX-License-Identifier: Apache-2.0
// Which PCI layout a machine type has.
import type { MachineFamily } from "./definition/domain.ts";

/** The family of a machine type, or undefined when Patchbay does not know its PCI layout. Source: QEMU `-machine help`. */
export function machineFamilyOf(machine: string): MachineFamily | undefined {
  if (machine === "q35" || machine.startsWith("pc-q35-")) return "q35";
  if (machine === "pc" || machine.startsWith("pc-i440fx-")) return "pc";
  return undefined;
}
