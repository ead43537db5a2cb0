// SPDX-License-Identifier: Apache-2.0
// A path's inode, open and not read: what adapters are handed of sockets and of directories.
import { constants, openSync } from "node:fs";

/** Linux's O_PATH, which node:fs does not name. Source: asm-generic/fcntl.h. */
const O_PATH = 0o10000000;

/** A descriptor, which the caller closes; an error when nothing is there. */
export function openInode(path: string): number {
  return openSync(path, constants.O_RDONLY | O_PATH);
}
