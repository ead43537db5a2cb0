// SPDX-License-Identifier: Apache-2.0
// Shared helpers of disk tests: Debian on the shared machine, and queries in its guest.
import { eventually } from "@patchbay/support";
import { CHANGE_MS, machine } from "../machine.ts";
import { addDebianImageTo, DEBIAN_BOOT_MS } from "./debian-image.ts";

export { DEBIAN_BOOT_MS, DEBIAN_IMAGE } from "./debian-image.ts";

export function addDebianImage(): void {
  addDebianImageTo(machine);
}

/** Waits for root's shell on the guest's console. */
export async function debianBooted(vmi: string): Promise<void> {
  await machine.booted(vmi, undefined, DEBIAN_BOOT_MS);
}

export async function inDebian(vmi: string, command: string): Promise<string> {
  const { code, lines } = await machine
    .console(vmi)
    .run(`sh -c '${command}'`, { timeoutMs: CHANGE_MS });
  if (code !== 0) throw new Error(`${command}: ${lines.join("\n")}`);
  return lines.join("\n");
}

/** Waits for the guest of the VMI that replaces the one with that uid. */
export async function debianRestarted(vmi: string, uid: string | undefined): Promise<void> {
  const isAnother = (): boolean => {
    const found = machine.findVmi(vmi);
    return found !== undefined && found.metadata.uid !== uid && found.status?.phase === "Running";
  };
  await eventually(isAnother, { withinMs: DEBIAN_BOOT_MS });
  await debianBooted(vmi);
}
