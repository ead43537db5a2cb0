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
 * Returns the descriptor if it still has this inode. Another inode means that the number was reused, and may refer to the network namespace
 * of another pod. Must be called synchronously before each use of the descriptor.
 * @throws AppError with OS_DESCRIPTOR_STALE
 */
export function checkedFd({ fd, inode }: { readonly fd: number; readonly inode: string }): number {
  if (findInode(fd) === inode) return fd;
  throw new AppError("OS_DESCRIPTOR_STALE", { fd });
}

let isSealed = false;

/**
 * Marks all inherited descriptors as close-on-exec, because Node.js marks only descriptors that it opened. Must be called
 * before a program is started; later calls do nothing.
 */
export function sealDescriptors(): void {
  if (isSealed) return;
  osNative().sealDescriptors();
  isSealed = true;
}
