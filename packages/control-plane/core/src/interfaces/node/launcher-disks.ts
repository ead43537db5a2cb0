// SPDX-License-Identifier: Apache-2.0
// Writes small disk images to launchers' volumes. The volumes are not trusted, because a launcher may change its volume at any time.

export interface LauncherDisks {
  /**
   * Atomically replaces a file in the pod's disk volume. Only the launcher's user may read the file. If the path is a symbolic
   * link, replaces the link and not its target.
   * @throws AppError with OS_FILE_FAILED, or with OS_PATH_REFUSED for a name outside the volume
   */
  replace(podUid: string, file: string, bytes: Uint8Array): void;
}
