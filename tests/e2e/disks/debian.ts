// SPDX-License-Identifier: Apache-2.0
// What the stories of disks share: Debian's image on the machine, and what its guest tells of itself.
import { execFileSync } from "node:child_process";
import { dirname, join } from "node:path";
import { eventually } from "@patchbay/support";
import { CHANGE_MS, machine } from "../machine.ts";
import { ROOT } from "../standalone.ts";

/** Disk that hack/guest/make-debian makes. */
const DEBIAN_DISK = join(ROOT, ".cache/guest-debian/debian.qcow2");
/** Name of its image. */
export const DEBIAN_IMAGE = "debian12";

/**
 * A boot of Debian takes half a minute under software emulation on an idle machine, and six minutes where two boot beside
 * four busy loops.
 */
export const DEBIAN_BOOT_MS = 600_000;

/** Makes the disk once for all runs, and wraps it as an image; that it is there already is no fault. */
export function addDebianImage(): void {
  execFileSync(join(ROOT, "hack/guest/make-debian"), [dirname(DEBIAN_DISK)], { stdio: "inherit" });
  machine.patchbay("image", "add", DEBIAN_IMAGE, DEBIAN_DISK);
}

/** Waits until root has a shell on the guest's console. */
export async function debianBooted(vmi: string): Promise<void> {
  await machine.booted(vmi, undefined, DEBIAN_BOOT_MS);
}

/** Runs a shell command in the guest; throws when it fails. */
export async function inDebian(vmi: string, command: string): Promise<string> {
  const { code, lines } = await machine
    .console(vmi)
    .run(`sh -c '${command}'`, { timeoutMs: CHANGE_MS });
  if (code !== 0) throw new Error(`${command}: ${lines.join("\n")}`);
  return lines.join("\n");
}

/** Waits for the guest of the VMI that follows the one with that uid. */
export async function debianRestarted(vmi: string, uid: string | undefined): Promise<void> {
  const isAnother = (): boolean => {
    const found = machine.findVmi(vmi);
    return found !== undefined && found.metadata.uid !== uid && found.status?.phase === "Running";
  };
  await eventually(isAnother, { withinMs: DEBIAN_BOOT_MS });
  await debianBooted(vmi);
}
