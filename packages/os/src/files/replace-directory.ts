// SPDX-License-Identifier: Apache-2.0
// How is a directory replaced by a copy of another one, so that a crash leaves the old or the new one?
import { cp, rename, rm, stat } from "node:fs/promises";
import { AppError } from "@patchbay/core/errors";
import { isMissing, toFileError } from "./file-errors.ts";

async function refuseUnlessDirectory(path: string): Promise<void> {
  const isDirectory = await stat(path).then(
    (stats) => stats.isDirectory(),
    (error: unknown) => {
      if (isMissing(error)) return false;
      throw error;
    },
  );
  if (!isDirectory) throw new AppError("OS_PATH_REFUSED", { path, reason: "it is no directory" });
}

async function moveAway(path: string, to: string): Promise<void> {
  try {
    await rename(path, to);
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
}

async function replace(from: string, to: string): Promise<void> {
  const fresh = `${to}.${String(process.pid)}.new`;
  const old = `${to}.${String(process.pid)}.old`;
  try {
    await cp(from, fresh, { recursive: true, verbatimSymlinks: true, preserveTimestamps: true });
    await moveAway(to, old);
    await rename(fresh, to);
  } finally {
    await rm(fresh, { recursive: true, force: true });
    await rm(old, { recursive: true, force: true });
  }
}

/**
 * Copies the directory `from` and puts the copy in the place of `to`; who has opened files of the old one keeps them.
 * @throws AppError with OS_PATH_REFUSED when `from` is no directory.
 * @throws AppError with OS_FILE_FAILED
 */
export async function replaceDirectory(from: string, to: string): Promise<void> {
  try {
    await refuseUnlessDirectory(from);
    await replace(from, to);
  } catch (error) {
    throw toFileError(error, "copy", from);
  }
}
