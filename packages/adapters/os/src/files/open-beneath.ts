// SPDX-License-Identifier: Apache-2.0
// Opens paths without following symbolic links, because other processes could replace a directory with a link at any time.
import { closeSync, constants, fstatSync, openSync } from "node:fs";
import { AppError } from "@patchbay/base";
import type { InheritedFd } from "@patchbay/core/interfaces";
import { osNative } from "../native.ts";
import { errnoOf, toFileError } from "./file-errors.ts";

/** Errno names for a symbolic link, a path that leaves the root, and a path component that is not a directory. Source: openat2(2) */
const REFUSED_ERRNOS: readonly string[] = ["ELOOP", "EXDEV", "ENOTDIR"];

interface OpenDirectory extends InheritedFd {
  close(): void;
}

/** Opens a directory without following symbolic links. @throws AppError with OS_PATH_REFUSED, OS_FILE_FAILED */
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
    if (!REFUSED_ERRNOS.includes(errno)) throw toFileError(error, "openat2", path);
    const reason = `the path has a symbolic link or a file where a directory must be (${errno})`;
    throw new AppError("OS_PATH_REFUSED", { path, reason }, { cause: error });
  } finally {
    closeSync(root);
  }
}

interface PathBeneath {
  /** Absolute path. Must be a directory that other users cannot replace, because symbolic links in this path are followed. */
  readonly root: string;
  readonly path: string;
}

export function descriptorPath(fd: number): string {
  return `/proc/self/fd/${String(fd)}`;
}

/** Opens the path without following symbolic links, calls `use`, and closes the descriptor. */
export function withPathBeneath<T>(
  location: PathBeneath,
  kind: "path" | "directory",
  use: (fd: number) => T,
): T {
  const root = openSync(location.root, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    const fd = osNative().openBeneath(root, location.path, kind);
    try {
      return use(fd);
    } finally {
      closeSync(fd);
    }
  } finally {
    closeSync(root);
  }
}
