// SPDX-License-Identifier: Apache-2.0
// Shared helpers of disk tests: Debian's image, and queries in its guest.
import { execFileSync } from "node:child_process";
import { dirname, join } from "node:path";
import { eventually } from "@patchbay/support";
import { CHANGE_MS, machine } from "../machine.ts";
import { ROOT } from "../standalone.ts";

/** The disk of hack/guest/make-debian. */
const DEBIAN_DISK = join(ROOT, ".cache/guest-debian/debian.qcow2");
export const DEBIAN_IMAGE = "debian12";

/**
 * A boot of Debian takes half a minute under software emulation on an idle machine, and six minutes when two boot
 * beside four busy loops.
 */
export const DEBIAN_BOOT_MS = 600_000;

/** Builds the disk once for all runs and adds it as an image; an existing one is reused. */
export function addDebianImage(): void {
  execFileSync(join(ROOT, "hack/guest/make-debian"), [dirname(DEBIAN_DISK)], { stdio: "inherit" });
  machine.patchbay("image", "add", DEBIAN_IMAGE, DEBIAN_DISK);
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
