// SPDX-License-Identifier: Apache-2.0
// Which PCI layout a machine type has.
import type { MachineFamily } from "./definition/domain.ts";

/** The family of a machine type, or undefined when Patchbay does not know its PCI layout. Source: QEMU `-machine help`. */
export function machineFamilyOf(machine: string): MachineFamily | undefined {
  if (machine === "q35" || machine.startsWith("pc-q35-")) return "q35";
  if (machine === "pc" || machine.startsWith("pc-i440fx-")) return "pc";
  return undefined;
}

/** Whether a QEMU that offers this machine type keeps running when a NIC whose tap was deleted is reset or removed. */
export function survivesLostTap(machine: string): boolean {
  const [, major, minor] = /-(\d+)\.(\d+)$/.exec(machine) ?? [];
  // QEMU 7.2 was measured to survive; 10.0 ends with "TUNSETVNETHDRSZ ioctl() failed". libvirt completes `q35` to the newest type.
  if (major === undefined) return true;
  return Number(major) < 7 || (major === "7" && Number(minor) <= 2);
}
