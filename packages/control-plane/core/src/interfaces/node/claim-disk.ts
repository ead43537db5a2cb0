// SPDX-License-Identifier: Apache-2.0
// Storage for PersistentVolumeClaims on a standalone machine. The data survives pods and reboots.

export interface ClaimSize {
  /** `files`: a file system with room for `sizeBytes` of data. `device`: a block device of exactly `sizeBytes`. */
  readonly kind: "files" | "device";
  readonly sizeBytes: number;
}

/**
 * Stores each claim in a sparse file. All calls are idempotent. Paths must be absolute, and only Patchbay may have write access to their
 * parent directories. `mount` replays the journal of the file system in the claim's file and makes safe repairs, but checks nothing else in
 * the file.
 */
export interface ClaimDisk {
  /** Creates the claim's file unless it exists. Resolves when the file is written to disk. */
  make(file: string, size: ClaimSize): Promise<void>;
  /**
   * Creates the directory and mounts the file on it. If the group of the mounted directory is not `group`, changes the group of all files
   * to `group` and makes the files group-writable. Set `group` only while no pod can modify the files.
   */
  mount(
    file: string,
    target: { readonly directory: string; readonly group?: number },
  ): Promise<void>;
  /** Attaches the file as a loop device and returns the device's path, which is stable until `release`. */
  attach(file: string): Promise<string>;
  /** Reverts `mount` and `attach`. Succeeds if the file does not exist. */
  release(file: string, directory: string): Promise<void>;
}
