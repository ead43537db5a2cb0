// SPDX-License-Identifier: Apache-2.0
// Copies of the node's device files, with other owners.

export interface DeviceCopy {
  /** Path of the device file to copy. Symbolic links are rejected. */
  readonly source: string;
  /** Path of the copy. Its directory is created, owned by root and readable by all. */
  readonly path: string;
  readonly uid: number;
  readonly gid: number;
  readonly mode: number;
}

export type CopyResult = "unchanged" | "made" | "removed";

export interface DeviceNodes {
  /**
   * Ensures that `path` is a copy of the source with its type and numbers. Replaces a file that differs atomically. Idempotent,
   * but must not run concurrently for one path. Equivalent to: `mknod`, `chown`, `mv`
   * @throws AppError with an `OS_` code
   */
  ensureCopy(copy: DeviceCopy): Promise<CopyResult>;
}
