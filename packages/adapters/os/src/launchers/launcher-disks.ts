// SPDX-License-Identifier: Apache-2.0
// Writes disk files into launchers' volumes. Launchers can replace files with symbolic links at any time. Therefore,
// links are not followed, and each disk is written to a new file, which then replaces the old file.
import { closeSync, constants, fchownSync, openSync, renameSync, rmSync, writeSync } from "node:fs";
import { DISKS_VOLUME, EMPTY_DIR_VOLUMES } from "@patchbay/api/names";
import { AppError } from "@patchbay/base";
import type { LauncherDisks } from "@patchbay/core/interfaces";
import { toFileError } from "../files/file-errors.ts";
import { descriptorPath, withPathBeneath } from "../files/open-beneath.ts";

export interface LauncherDisksOptions {
  readonly podsDir: string;
  readonly uid: number;
}

/** Flags that create a file without following a symbolic link. Source: open(2) */
const CREATE_NEW = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
const OWNER_ONLY = 0o600;
const FILE_NAME = /^[a-z0-9][a-z0-9.-]*$/;

function writeNew(path: string, bytes: Uint8Array, uid: number): void {
  const fd = openSync(path, CREATE_NEW, OWNER_ONLY);
  try {
    for (let offset = 0; offset < bytes.length;) offset += writeSync(fd, bytes, offset);
    fchownSync(fd, uid, uid);
  } finally {
    closeSync(fd);
  }
}

export function createLauncherDisks({ podsDir, uid }: LauncherDisksOptions): LauncherDisks {
  return {
    replace(podUid, file, bytes) {
      const path = `${podUid}/${EMPTY_DIR_VOLUMES}/${DISKS_VOLUME}`;
      if (!FILE_NAME.test(file)) {
        throw new AppError("OS_PATH_REFUSED", {
          path: file,
          reason: "it is not a valid disk name",
        });
      }
      try {
        withPathBeneath({ root: podsDir, path }, "directory", (volume) => {
          const temporary = `${descriptorPath(volume)}/.${file}`;
          rmSync(temporary, { force: true });
          writeNew(temporary, bytes, uid);
          renameSync(temporary, `${descriptorPath(volume)}/${file}`);
        });
      } catch (error) {
        throw toFileError(error, "replace", `${path}/${file}`);
      }
    },
  };
}
