// SPDX-License-Identifier: Apache-2.0
// The guest's kernel and initrd, built once for all runs.
import { execFileSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";

const ROOT = join(import.meta.dirname, "../..");

/** Builds the guest image once for all runs; returns its directory. */
export function makeGuestImage(): string {
  const directory = join(ROOT, ".cache/guest");
  mkdirSync(directory, { recursive: true });
  execFileSync(join(ROOT, "hack/guest/make-image"), [directory], { stdio: "inherit" });
  return directory;
}
