// SPDX-License-Identifier: Apache-2.0

export interface DirectoryAccess {
  readonly uid: number;
  readonly gid: number;
  readonly mode: number;
}

export interface VolumeFile {
  readonly bytes: Uint8Array;
  readonly mode: number;
  /** User ID of the owner. Default 0. */
  readonly uid?: number;
  /** Group ID of the owner. Default 0. */
  readonly gid?: number;
}

/** Values of core/v1 HostPathType. */
export type PathKind = "Directory" | "File" | "Socket" | "CharDevice" | "BlockDevice" | "Other";

/**
 * Creates the directories and files that pods mount. All calls are idempotent. Paths are absolute, and their parent directories belong to Patchbay.
 * @throws AppError with an `OS_` code
 */
export interface VolumeDisk {
  makeDirectory(path: string, access: DirectoryAccess): Promise<void>;
  /** Mounts a tmpfs. Without `sizeBytes` the kernel limits it to half of the memory. */
  mountMemory(
    path: string,
    options: { readonly access: DirectoryAccess; readonly sizeBytes?: number },
  ): Promise<void>;
  /**
   * Mounts the file system in the sparse file `image`, which is created for at least `sizeBytes` of data. An intact file
   * keeps its contents; a damaged one is recreated.
   * @throws AppError with OS_FILE_IN_USE while the file is mounted elsewhere, even in another mount namespace; the
   * file then stays unchanged
   */
  mountImage(
    path: string,
    options: {
      readonly access: DirectoryAccess;
      readonly image: string;
      readonly sizeBytes: number;
    },
  ): Promise<void>;
  /**
   * Bind-mounts the directory `source` without device nodes and submounts. The path of `source` must have no symbolic link.
   * An existing mount stays.
   * @throws AppError with OS_PATH_REFUSED if the path has a symbolic link or is not a directory
   */
  mountDirectory(path: string, source: string): Promise<void>;
  /** Unmounts everything at `path` and below it, even if in use. */
  unmountAll(path: string): Promise<void>;
  listMounts(path: string): Promise<readonly string[]>;
  /**
   * Replaces all files of the directory atomically: readers see either the old or the new files. Keys are paths below the
   * directory. Returns whether anything changed. Equivalent to: a kubelet's `..data`
   */
  publish(path: string, files: ReadonlyMap<string, VolumeFile>): Promise<boolean>;
  /** Returns the disk usage of each tree in bytes, without other file systems. Missing trees are omitted. Equivalent to: `du -sx` */
  usedBytes(paths: readonly string[]): Promise<ReadonlyMap<string, number>>;
  /** Returns the kind of the file, following symbolic links; undefined if it does not exist. */
  readKind(path: string): Promise<PathKind | undefined>;
}
