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
 * Returns the descriptor after checking its inode. Its number may have been closed and reused, and would then name
 * the namespace of another pod. Call it synchronously before use.
 * @throws AppError with OS_DESCRIPTOR_STALE
 */
export function checkedFd({ fd, inode }: { readonly fd: number; readonly inode: string }): number {
  if (findInode(fd) === inode) return fd;
  throw new AppError("OS_DESCRIPTOR_STALE", { fd });
}

let isSealed = false;

/**
 * Prevents programs started later from inheriting descriptors that this process inherited. Node.js does so only for
 * descriptors that it opened itself, and for the first few others. Call it before each start; only the first call has
 * an effect.
 */
export function sealDescriptors(): void {
  if (isSealed) return;
  osNative().sealDescriptors();
  isSealed = true;
}
