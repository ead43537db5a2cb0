// SPDX-License-Identifier: Apache-2.0
// Disks of launchers in memory.
import { AppError } from "@patchbay/base";
import type { LauncherDisks } from "@patchbay/core/interfaces";

export interface FakeLauncherDisks extends LauncherDisks {
  /** Contents of disks, by POD-UID/FILE. */
  readonly files: ReadonlyMap<string, Uint8Array>;
}

export function createFakeLauncherDisks(): FakeLauncherDisks {
  const files = new Map<string, Uint8Array>();
  return {
    files,
    replace(podUid, file, bytes) {
      if (!/^[a-z0-9][a-z0-9.-]*$/.test(file)) {
        throw new AppError("OS_PATH_REFUSED", {
          path: file,
          reason: "it is not a valid disk name",
        });
      }
      files.set(`${podUid}/${file}`, bytes);
    },
  };
}
