// SPDX-License-Identifier: Apache-2.0
import { fstatSync } from "node:fs";
import { AppError } from "@patchbay/base";
import { osNative } from "./native.ts";

function findInode(fd: number): string | undefined {
  try {
    return fstatSync(fd, { bigint: true }).ino.toString();
  } catch {
    return undefined;
  }
}

/**
 * Returns the descriptor if the inode is unchanged. Numbers are reused, so check before each use.
 * @throws AppError with OS_DESCRIPTOR_STALE
 */
export function checkedFd({ fd, inode }: { readonly fd: number; readonly inode: string }): number {
  if (findInode(fd) === inode) return fd;
  throw new AppError("OS_DESCRIPTOR_STALE", { fd });
}

let isSealed = false;

/** Marks inherited descriptors as close-on-exec, which Node.js does not. Call before the first program starts. */
export function sealDescriptors(): void {
  if (isSealed) return;
  osNative().sealDescriptors();
  isSealed = true;
}
