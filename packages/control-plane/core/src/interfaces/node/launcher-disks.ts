// SPDX-License-Identifier: Apache-2.0
// Small disks in a launcher's volume. The launcher may change the volume at any time.

export interface LauncherDisks {
  /**
   * Replaces a file in the pod's disk volume atomically. The file belongs to the launcher and is readable by no other user.
   * The target of a symbolic link at that path stays unchanged. Idempotent.
   * @throws AppError with OS_PATH_REFUSED for a name outside the volume, OS_FILE_FAILED
   */
  replace(podUid: string, file: string, bytes: Uint8Array): void;
}
