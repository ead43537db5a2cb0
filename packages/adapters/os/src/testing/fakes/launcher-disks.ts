// SPDX-License-Identifier: Apache-2.0
// Disks of launchers in memory.
import { AppError } from "@patchbay/base";
import type { LauncherDisks } from "@patchbay/core/interfaces";

/** {@link LauncherDisks} in memory, with what a test sees. */
export interface FakeLauncherDisks extends LauncherDisks {
  /** Bytes of each disk, by the pod's uid and the file. */
  readonly files: ReadonlyMap<string, Uint8Array>;
}

/** Launchers without disks. */
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
