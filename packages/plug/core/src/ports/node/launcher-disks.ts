// SPDX-License-Identifier: Apache-2.0
// Small disks in the volume of a launcher, which may write there whatever it likes.

/** Puts disks in the place of those that were made for a guest that has not started. */
export interface LauncherDisks {
  /**
   * Makes the bytes those of the file in the pod's volume of disks, whole or not at all; the file is the launcher's, and
   * nobody else reads it. What a link there leads to stays as it is. May be repeated.
   * @throws AppError with OS_PATH_REFUSED for a name that is no file's in the volume, OS_FILE_FAILED
   */
  replace(podUid: string, file: string, bytes: Uint8Array): void;
}
