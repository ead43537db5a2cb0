// SPDX-License-Identifier: Apache-2.0
// Storage of claims on this machine: what must outlive pods, and the machine's next start.

/** What a claim is given, and how large. */
export interface ClaimSize {
  /** Files: a file system that takes so much data. Device: as many bytes as that. */
  readonly kind: "files" | "device";
  readonly sizeBytes: number;
}

/**
 * Keeps each claim's storage in a sparse file, which is the wall around it. Everything may be repeated. Paths are absolute,
 * and what is above them is nobody's but ours. What is in a file is never judged, mended beyond what its file system's own
 * journal says, or made anew.
 * @throws AppError with an `OS_` code
 */
export interface ClaimDisk {
  /** Makes the file, in which nothing is yet; one that is there stays as it is. It is on the disk when this resolves. */
  make(file: string, size: ClaimSize): Promise<void>;
  /**
   * Mounts a file of files at the directory, which is made; one that is mounted there stays so. All files get the group,
   * which may write, unless the directory has it: it is named only while nobody else can change what is in there.
   */
  mount(file: string, at: { readonly directory: string; readonly group?: number }): Promise<void>;
  /** The device whose bytes are those of the file; the same for as long as it is not released. */
  attach(file: string): Promise<string>;
  /** Ends what `mount` and `attach` have made for the file; not there is success. */
  release(file: string, directory: string): Promise<void>;
}
