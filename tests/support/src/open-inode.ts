// SPDX-License-Identifier: Apache-2.0
// An O_PATH descriptor, as adapters receive for sockets and directories.
import { constants, openSync } from "node:fs";

/** Linux's O_PATH, which node:fs does not name. Source: asm-generic/fcntl.h. */
const O_PATH = 0o10000000;

/** A descriptor, which the caller closes; throws if the path is missing. */
export function openInode(path: string): number {
  return openSync(path, constants.O_RDONLY | O_PATH);
}
