// SPDX-License-Identifier: Apache-2.0
import { closeSync, constants, fstatSync, openSync, statfsSync } from "node:fs";
import type { Namespaces } from "@patchbay/core/interfaces";
import { errnoOf, isMissing, toFileError } from "./files/file-errors.ts";

/** File system type of namespaces. Source: linux/magic.h NSFS_MAGIC */
const NSFS_MAGIC = 0x6e736673;

function openPath(path: string): number | undefined {
  try {
    return openSync(path, constants.O_RDONLY);
  } catch (error) {
    if (isMissing(error) || errnoOf(error) === "ESRCH") return undefined;
    throw toFileError(error, "open", path);
  }
}

/** Returns the inode of the network namespace of process `pid` (default: this one), in decimal. @throws AppError with OS_FILE_FAILED */
export function readNetnsInode(pid?: number): string {
  const path = `/proc/${pid === undefined ? "self" : String(pid)}/ns/net`;
  const netns = createNamespaces().open(path);
  netns?.close();
  if (netns !== undefined) return netns.inode;
  throw toFileError(new Error("it is not a network namespace"), "open", path);
}

export function createNamespaces(): Namespaces {
  return {
    open: (path) => {
      const fd = openPath(path);
      if (fd === undefined) return undefined;
      // Checks the opened file by its descriptor, because another process may meanwhile have replaced the file at the path.
      if (statfsSync(`/proc/self/fd/${String(fd)}`).type !== NSFS_MAGIC) {
        closeSync(fd);
        return undefined;
      }
      return {
        fd,
        inode: fstatSync(fd, { bigint: true }).ino.toString(),
        close: () => {
          closeSync(fd);
        },
      };
    },
  };
}
