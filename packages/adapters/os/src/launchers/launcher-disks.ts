// SPDX-License-Identifier: Apache-2.0
// The port LauncherDisks on this machine. The launcher may change names in its volume at any time: the volume is opened
// through no symbolic link, the file is a new one, and it comes to its place by a change of its name.
import { closeSync, constants, fchownSync, openSync, renameSync, rmSync, writeSync } from "node:fs";
import { DISKS_VOLUME, EMPTY_DIR_VOLUMES } from "@patchbay/api/names";
import { AppError } from "@patchbay/core/errors";
import type { LauncherDisks } from "@patchbay/core/ports";
import { toFileError } from "../files/file-errors.ts";
import { pathOf, using } from "./beneath.ts";

/** What {@link createLauncherDisks} needs. */
export interface LauncherDisksOptions {
  /** Directory of pods, for example `/var/lib/kubelet/pods`. */
  readonly podsDir: string;
  /** User and group of all launchers. */
  readonly uid: number;
}

/** A new file, and none by way of a link. Source: open(2). */
const NEW = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
const OWNERS_ALONE = 0o600;
/** A volume's name, and how the disk is made. */
const FILE_NAME = /^[a-z0-9][a-z0-9.-]*$/;

function writeNew(path: string, bytes: Uint8Array, uid: number): void {
  const fd = openSync(path, NEW, OWNERS_ALONE);
  try {
    for (let at = 0; at < bytes.length;) at += writeSync(fd, bytes, at);
    fchownSync(fd, uid, uid);
  } finally {
    closeSync(fd);
  }
}

/** Disks of launchers below a directory of pods. */
export function createLauncherDisks({ podsDir, uid }: LauncherDisksOptions): LauncherDisks {
  return {
    replace(podUid, file, bytes) {
      const path = `${podUid}/${EMPTY_DIR_VOLUMES}/${DISKS_VOLUME}`;
      if (!FILE_NAME.test(file)) {
        throw new AppError("OS_PATH_REFUSED", { path: file, reason: "it is no name of a disk" });
      }
      try {
        using({ root: podsDir, path }, "directory", (volume) => {
          const temporary = `${pathOf(volume)}/.${file}`;
          rmSync(temporary, { force: true });
          writeNew(temporary, bytes, uid);
          renameSync(temporary, `${pathOf(volume)}/${file}`);
        });
      } catch (error) {
        throw toFileError(error, "replace", `${path}/${file}`);
      }
    },
  };
}
