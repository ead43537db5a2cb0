// SPDX-License-Identifier: Apache-2.0
// Device nodes beside those of the machine, for somebody who may not open these.

/** A device node that is to be like another but in whose it is. */
export interface DeviceCopy {
  /** The machine's own node; a symbolic link is none. */
  readonly source: string;
  /** Where the copy is; the directory is made, root's and open to be read. */
  readonly path: string;
  readonly uid: number;
  readonly gid: number;
  /** Permission bits. */
  readonly mode: number;
}

/** What has become of a copy; `removed`: there is no device at its source, and now none at its path. */
export type CopyResult = "unchanged" | "made" | "removed";

/** Makes device nodes. Paths are absolute. */
export interface DeviceNodes {
  /**
   * Keeps a node of the source's type and numbers at the path: made anew, all at once, where anything about it is another.
   * May be repeated, not twice at a time for one path. Equivalent to: `mknod`, `chown`, `mv`
   * @throws AppError with an `OS_` code
   */
  keepCopy(copy: DeviceCopy): Promise<CopyResult>;
}
