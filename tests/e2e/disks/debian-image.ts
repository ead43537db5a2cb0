// SPDX-License-Identifier: Apache-2.0
// Debian's image for any test machine.
import { execFileSync } from "node:child_process";
import { dirname, join } from "node:path";
import type { Machine } from "@patchbay/support";
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
export function addDebianImageTo(machine: Machine): void {
  execFileSync(join(ROOT, "hack/guest/make-debian"), [dirname(DEBIAN_DISK)], { stdio: "inherit" });
  machine.patchbay("image", "add", DEBIAN_IMAGE, DEBIAN_DISK);
}
