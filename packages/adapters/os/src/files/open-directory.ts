// SPDX-License-Identifier: Apache-2.0
// How is a directory opened whose way somebody else may change meanwhile?
import { closeSync, constants, fstatSync, openSync } from "node:fs";
import { AppError } from "@patchbay/core/errors";
import type { InheritedFd } from "@patchbay/core/ports";
import { osNative } from "../native.ts";
import { errnoOf, toFileError } from "./file-errors.ts";

/** A symbolic link, a way out, something that is no directory. Source: openat2(2). */
const REFUSED: readonly string[] = ["ELOOP", "EXDEV", "ENOTDIR"];

/** A directory that is held by its descriptor, whatever its path names by now. */
export interface OpenDirectory extends InheritedFd {
  /** To be called once. */
  close(): void;
}

/**
 * Opens the directory of an absolute path through no symbolic link.
 * @throws AppError with OS_PATH_REFUSED where the way is none of directories alone, or OS_FILE_FAILED
 */
export function openDirectory(path: string): OpenDirectory {
  const root = openSync("/", constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    const fd = osNative().openBeneath(root, path.replace(/^\/+/, "") || ".", "directory");
    const inode = fstatSync(fd, { bigint: true }).ino.toString();
    return {
      fd,
      inode,
      close: () => {
        closeSync(fd);
      },
    };
  } catch (error) {
    const errno = errnoOf(error) ?? "";
    if (!REFUSED.includes(errno)) throw toFileError(error, "openat2", path);
    const reason = `the path has a symbolic link or a file where a directory must be (${errno})`;
    throw new AppError("OS_PATH_REFUSED", { path, reason }, { cause: error });
  } finally {
    closeSync(root);
  }
}
