// SPDX-License-Identifier: Apache-2.0
// Storage of claims on a standalone machine. It survives pods and reboots.

export interface ClaimSize {
  /** Files: a file system for that amount of data. Device: exactly that many bytes. */
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
  /** Creates an empty file. An existing file stays unchanged. Resolves when it is on disk. */
  make(file: string, size: ClaimSize): Promise<void>;
  /**
   * Mounts the file at the directory, which is created. If `group` is set and the directory has another one, all files get
   * that group with write permission. Set it only while nothing else can modify the files.
   */
  mount(file: string, at: { readonly directory: string; readonly group?: number }): Promise<void>;
  /** Attaches the file as a loop device. The device is the same until it is released. */
  attach(file: string): Promise<string>;
  /** Reverts `mount` and `attach`. A missing file is success. */
  release(file: string, directory: string): Promise<void>;
}
