// SPDX-License-Identifier: Apache-2.0
// A descriptor's number is not an identity: what it named may be closed, and the number another file's by now.
import { fstatSync } from "node:fs";
import { AppError } from "@patchbay/core/errors";

function inodeOf(fd: number): string | undefined {
  try {
    return fstatSync(fd, { bigint: true }).ino.toString();
  } catch {
    return undefined; // closed
  }
}

/**
 * The number, of which it is known now that it names the file of that inode: else another pod's namespace would be acted
 * in. To be used before anything else is waited for.
 * @throws AppError with OS_DESCRIPTOR_STALE
 */
export function checkedFd({ fd, inode }: { readonly fd: number; readonly inode: string }): number {
  if (inodeOf(fd) === inode) return fd;
  throw new AppError("OS_DESCRIPTOR_STALE", { fd });
}
