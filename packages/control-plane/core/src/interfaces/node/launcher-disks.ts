// SPDX-License-Identifier: Apache-2.0
// Writes small disk images to launchers' volumes, which launchers may change at any time.

export interface LauncherDisks {
  /**
   * Atomically replaces a file that only the launcher's user may read. Does not follow symbolic links.
   * @throws AppError with OS_FILE_FAILED, or with OS_PATH_REFUSED for a name outside the volume
   */
  replace(podUid: string, file: string, bytes: Uint8Array): void;
}
