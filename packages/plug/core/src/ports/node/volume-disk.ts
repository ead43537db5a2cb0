// SPDX-License-Identifier: Apache-2.0
// Directories that pods are given: file systems of their own, files that change all at once.

/** Owner, group and permission bits of a directory. */
export interface DirectoryAccess {
  readonly uid: number;
  readonly gid: number;
  readonly mode: number;
}

/** One file of a volume. */
export interface VolumeFile {
  readonly bytes: Uint8Array;
  readonly mode: number;
  /** Default 0. */
  readonly uid?: number;
  /** Default 0. */
  readonly gid?: number;
}

/** What is at a path, in the words of core/v1 HostPathType. */
export type PathKind = "Directory" | "File" | "Socket" | "CharDevice" | "BlockDevice" | "Other";

/**
 * Makes what pods mount. Everything may be repeated: what is as it should be stays as it is. Paths are absolute, and what
 * is above them is nobody's but ours.
 * @throws AppError with an `OS_` code
 */
export interface VolumeDisk {
  /** Makes the directory, and corrects whose it is. */
  makeDirectory(path: string, access: DirectoryAccess): Promise<void>;
  /** Mounts a file system in memory there. Without `sizeBytes` the kernel's bound holds: half of the memory. */
  mountMemory(
    path: string,
    options: { readonly access: DirectoryAccess; readonly sizeBytes?: number },
  ): Promise<void>;
  /**
   * Mounts a file system that lies in the file `image` there, which is made for at least `sizeBytes` of data and takes
   * from the disk what is in it. A file that is there and whole is mounted with what is in it; one that is damaged is made
   * anew.
   * @throws AppError with OS_FILE_IN_USE while the file is mounted elsewhere, also in another mount namespace; it is left
   * as it is
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
   * Shows the directory `source` of the machine there, whose way goes through no symbolic link; devices in it are none, and
   * what is mounted below it is not shown. What is mounted there already stays.
   * @throws AppError with OS_PATH_REFUSED where a link, or something that is no directory, is on the way
   */
  mountDirectory(path: string, source: string): Promise<void>;
  /** Unmounts everything at `path` and below it, also what is in use. */
  unmountAll(path: string): Promise<void>;
  /** Mount points at `path` and below it. */
  listMounts(path: string): Promise<readonly string[]>;
  /**
   * Makes the files those of the directory, by paths below it, all in one moment: readers see the old ones or the new.
   * Answers whether anything changed. Equivalent to: a kubelet's `..data`
   */
  publish(path: string, files: ReadonlyMap<string, VolumeFile>): Promise<boolean>;
  /** Bytes on the disk of each tree, other file systems in it left out; trees that are gone have none. Equivalent to: `du -sx` */
  usedBytes(paths: readonly string[]): Promise<ReadonlyMap<string, number>>;
  /** What is at the path, after symbolic links; undefined: nothing. */
  kindOf(path: string): Promise<PathKind | undefined>;
}
