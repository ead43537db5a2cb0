// SPDX-License-Identifier: Apache-2.0

export interface DeviceCopy {
  /** Path of the device file to copy. Symbolic links are rejected. */
  readonly source: string;
  /** Path of the copy. `ensureCopy` creates the parent directory, which root owns and all users can read. */
  readonly path: string;
  readonly uid: number;
  readonly gid: number;
  readonly mode: number;
}

export type CopyResult = "unchanged" | "made" | "removed";

export interface DeviceNodes {
  /**
   * Ensures that `path` is a device node with the source's type and device numbers. Atomically replaces any other file at
   * `path`. Concurrent calls for one path are not allowed. Equivalent to: `mknod`, `chown`, `mv`
   * @throws AppError with an `OS_` code
   */
  ensureCopy(copy: DeviceCopy): Promise<CopyResult>;
}
