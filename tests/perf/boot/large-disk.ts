// SPDX-License-Identifier: Apache-2.0
// Whether boot time depends on the image size.
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { appendFileSync, statSync } from "node:fs";

const MIB = 1024 ** 2;
const LARGE = 2048 * MIB;

/** Writes the disk as non-sparse raw with incompressible padding up to 2 GiB. */
export function growDisk(disk: string, large: string): void {
  execFileSync("qemu-img", ["convert", "-O", "raw", "-S", "0", disk, large]);
  for (let size = statSync(large).size; size < LARGE; size += MIB) {
    appendFileSync(large, randomBytes(MIB));
  }
}
