// SPDX-License-Identifier: Apache-2.0
// Storage of claims on a standalone machine. It survives pods and reboots.

export interface ClaimSize {
  /** `files`: a file system with room for `sizeBytes` of data. `device`: a block device of exactly `sizeBytes`. */
  readonly kind: "files" | "device";
  readonly sizeBytes: number;
}

/**
 * Stores each claim in a sparse file, which limits its size. All calls are idempotent. Paths are absolute, and their
 * parent directories belong to Patchbay. File contents are never inspected, recreated or repaired, except that mounting
 * replays the file system's journal.
 * @throws AppError with an `OS_` code
 */
export interface ClaimDisk {
  /** Creates an empty file. An existing file stays unchanged. Resolves when the file is on disk. */
  make(file: string, size: ClaimSize): Promise<void>;
  /**
   * Creates the directory and mounts the file there. If `group` is set and the directory has another group, all files get
   * that group with write permission. Set `group` only while nothing else can modify the files.
   */
  mount(
    file: string,
    target: { readonly directory: string; readonly group?: number },
  ): Promise<void>;
  /** Attaches the file as a loop device and returns its path, which is the same until the file is released. */
  attach(file: string): Promise<string>;
  /** Reverts `mount` and `attach`. A missing file is success. */
  release(file: string, directory: string): Promise<void>;
}
