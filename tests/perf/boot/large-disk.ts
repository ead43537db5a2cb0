// SPDX-License-Identifier: Apache-2.0
// The same disk, larger: does the time of a boot depend on the size of the image?
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { appendFileSync, statSync } from "node:fs";

const MIB = 1024 ** 2;
const LARGE = 2048 * MIB;

/** Writes the disk as raw without holes, with bytes behind it that nothing compresses, until it takes 2 GiB. */
export function growDisk(disk: string, large: string): void {
  execFileSync("qemu-img", ["convert", "-O", "raw", "-S", "0", disk, large]);
  for (let size = statSync(large).size; size < LARGE; size += MIB) {
    appendFileSync(large, randomBytes(MIB));
  }
}
