// SPDX-License-Identifier: Apache-2.0

/** Files of the machine. Paths are absolute. */
export interface Files {
  readText(path: string): Promise<string | undefined>;
  /** Replaces the whole file: temporary file, fsync, rename, fsync of the directory. */
  writeAtomic(path: string, text: string, mode?: number): Promise<void>;
  /** Returns the names in a directory, sorted; empty if the directory does not exist. */
  list(directory: string): Promise<readonly string[]>;
  ensureDirectory(directory: string, mode?: number): Promise<void>;
  /** Removes a file or a whole tree. Follows no symbolic link and crosses no mount. A missing path is success. */
  remove(path: string): Promise<void>;
  exists(path: string): Promise<boolean>;
  /** Returns the size of the file system and the space available to users other than root, in bytes. Equivalent to: `df` */
  space(path: string): Promise<{ readonly sizeBytes: number; readonly freeBytes: number }>;
  /** Calls `onChange` after each change of names in `directory` (inotify) until aborted. */
  watchDirectory(directory: string, onChange: () => void, signal: AbortSignal): void;
}
