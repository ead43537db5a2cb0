// SPDX-License-Identifier: Apache-2.0
// Copies of the machine's device nodes, with other owners.

export interface DeviceCopy {
  /** The machine's node. A symbolic link is not accepted. */
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
   * Ensures a copy of the source's type and numbers. Replaces it atomically if anything differs. Idempotent, but must not
   * run twice at a time for one path. Equivalent to: `mknod`, `chown`, `mv`
   * @throws AppError with an `OS_` code
   */
  ensureCopy(copy: DeviceCopy): Promise<CopyResult>;
}
