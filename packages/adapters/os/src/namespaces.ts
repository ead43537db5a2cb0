// SPDX-License-Identifier: Apache-2.0
// Which network namespace is mounted at a path?
import { closeSync, constants, fstatSync, openSync, statfsSync } from "node:fs";
import type { Namespaces } from "@patchbay/core/ports";
import { errnoOf, isMissing, toFileError } from "./files/file-errors.ts";

/** File system of namespaces. Source: linux/magic.h NSFS_MAGIC */
const NSFS_MAGIC = 0x6e736673;

function openPath(path: string): number | undefined {
  try {
    return openSync(path, constants.O_RDONLY);
  } catch (error) {
    if (isMissing(error) || errnoOf(error) === "ESRCH") return undefined;
    throw toFileError(error, "open", path);
  }
}

/**
 * Inode of the network namespace that a process is in, decimal text; without one that of this process. On a node the
 * host's own is that of process 1, in which no pod is.
 * @throws AppError with OS_FILE_FAILED when there is no such process, or it may not be looked at
 */
export function readNetnsInode(pid?: number): string {
  // Source: namespaces(7)
  const path = `/proc/${pid === undefined ? "self" : String(pid)}/ns/net`;
  const netns = createNamespaces().open(path);
  netns?.close();
  if (netns !== undefined) return netns.inode;
  throw toFileError(new Error("it is not a network namespace"), "open", path);
}

/** Network namespaces of this machine. */
export function createNamespaces(): Namespaces {
  return {
    open: (path) => {
      const fd = openPath(path);
      if (fd === undefined) return undefined;
      // The descriptor is asked, not the path again, which may be another file by now.
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
