// SPDX-License-Identifier: Apache-2.0

export interface Files {
  readText(path: string): Promise<string | undefined>;
  /** Replaces the file atomically: writes a temporary file, syncs it, renames it, and syncs the directory. */
  writeAtomic(path: string, text: string, mode?: number): Promise<void>;
  /** Returns the sorted names in a directory. Returns an empty list if the directory does not exist. */
  list(directory: string): Promise<readonly string[]>;
  ensureDirectory(directory: string, mode?: number): Promise<void>;
  /** Removes a file or a directory tree without following symbolic links or crossing mounts. Succeeds if the path does not exist. */
  remove(path: string): Promise<void>;
  exists(path: string): Promise<boolean>;
  /** Returns the size of the file system, and its free space for users other than root, in bytes, as `df` prints them. */
  readSpace(path: string): Promise<{ readonly sizeBytes: number; readonly freeBytes: number }>;
  /** Calls `onChange` after each change of names in `directory` (inotify), until `signal` aborts. */
  watchDirectory(directory: string, onChange: () => void, signal: AbortSignal): void;
}
