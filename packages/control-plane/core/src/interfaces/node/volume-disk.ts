// SPDX-License-Identifier: Apache-2.0

export interface DirectoryAccess {
  readonly uid: number;
  readonly gid: number;
  readonly mode: number;
}

export interface VolumeFile {
  readonly bytes: Uint8Array;
  readonly mode: number;
  /** User ID of the owner. Default: 0. */
  readonly uid?: number;
  /** Group ID of the owner. Default: 0. */
  readonly gid?: number;
}

/** Kinds of files that core/v1 HostPathType distinguishes, and `Other`. */
export type PathKind = "Directory" | "File" | "Socket" | "CharDevice" | "BlockDevice" | "Other";

/**
 * Creates the directories and files that pods mount. All calls are idempotent. Paths must be absolute, and only Patchbay may have write
 * access to their parent directories.
 * @throws AppError with an `OS_` code
 */
export interface VolumeDisk {
  makeDirectory(path: string, access: DirectoryAccess): Promise<void>;
  /** Mounts a tmpfs. Without `sizeBytes`, the kernel limits the tmpfs to half of the memory. */
  mountMemory(
    path: string,
    options: { readonly access: DirectoryAccess; readonly sizeBytes?: number },
  ): Promise<void>;
  /**
   * Mounts the file system in the sparse file `image`. Creates the file with room for at least `sizeBytes` of data if the file
   * is missing or damaged.
   * @throws AppError with OS_FILE_IN_USE if the file is mounted elsewhere, even in another mount namespace
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
   * Bind-mounts the directory `source`, without its submounts and without access to device nodes. Keeps an existing mount.
   * @throws AppError with OS_PATH_REFUSED if the path of `source` contains a symbolic link or is not a directory
   */
  mountDirectory(path: string, source: string): Promise<void>;
  /** Unmounts all file systems at and below `path`, even if they are in use. */
  unmountAll(path: string): Promise<void>;
  listMounts(path: string): Promise<readonly string[]>;
  /**
   * Replaces all files of the directory atomically by replacing a symbolic link `..data`, like the kubelet. Readers see either
   * the old or the new files. Keys of `files` are paths below the directory. Returns whether a file changed.
   */
  publish(path: string, files: ReadonlyMap<string, VolumeFile>): Promise<boolean>;
  /** Returns each directory tree's disk usage in bytes. Omits missing trees and nested mounts. Equivalent to: `du -sx` */
  usedBytes(paths: readonly string[]): Promise<ReadonlyMap<string, number>>;
  /** Returns the kind of the file, or undefined if the file does not exist. Follows symbolic links. */
  readKind(path: string): Promise<PathKind | undefined>;
}
