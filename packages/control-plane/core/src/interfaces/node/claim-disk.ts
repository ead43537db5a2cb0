// SPDX-License-Identifier: Apache-2.0
// Storage for PersistentVolumeClaims on a standalone machine. The data survives pods and reboots.

export interface ClaimSize {
  /** `files`: a file system with room for `sizeBytes` of data. `device`: a block device of exactly `sizeBytes`. */
  readonly kind: "files" | "device";
  readonly sizeBytes: number;
}

/** Stores claims in sparse files. Calls are idempotent. Only Patchbay may write to the absolute paths' parent directories. */
export interface ClaimDisk {
  /** Creates the claim's file unless it exists. Resolves when the file is written to disk. */
  make(file: string, size: ClaimSize): Promise<void>;
  /**
   * Creates the directory and mounts the file after safe repairs. `group` gets write access to all files. Set `group` only while no pod
   * writes.
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
