// SPDX-License-Identifier: Apache-2.0
// Files of the machine.

/** Reads and writes files. Paths are absolute. */
export interface Files {
  /** The text, or undefined when there is no such file. */
  readText(path: string): Promise<string | undefined>;
  /** Replaces the file as a whole: temporary file, fsync, rename, fsync of the directory. */
  writeAtomic(path: string, text: string, mode?: number): Promise<void>;
  /** Names in a directory, sorted; empty when there is no such directory. */
  list(directory: string): Promise<readonly string[]>;
  ensureDirectory(directory: string, mode?: number): Promise<void>;
  /** Removes a file or a whole tree of any depth, through no symbolic link and across no mount; not there is success. */
  remove(path: string): Promise<void>;
  /** Whether there is anything at `path`. */
  exists(path: string): Promise<boolean>;
  /** How much the file system of `path` holds and has left for others than root, bytes. Equivalent to: `df` */
  space(path: string): Promise<{ readonly sizeBytes: number; readonly freeBytes: number }>;
  /** Calls `changed` after each change of names in `directory` (inotify) until aborted. */
  watchDirectory(directory: string, changed: () => void, signal: AbortSignal): void;
}
