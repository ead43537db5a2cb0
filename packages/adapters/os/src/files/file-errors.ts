// SPDX-License-Identifier: Apache-2.0
// How does a failed file operation become an AppError?
import { AppError, messageOf } from "@patchbay/core/errors";

/** The errno name of a system call's error, for example `ENOENT`; undefined for other errors. */
export function errnoOf(error: unknown): string | undefined {
  return error instanceof Error && "code" in error && typeof error.code === "string"
    ? error.code
    : undefined;
}

/** Whether the error says that there is nothing at the path. */
export function isMissing(error: unknown): boolean {
  const errno = errnoOf(error);
  return errno === "ENOENT" || errno === "ENOTDIR";
}

/** The AppError for a failed `call` on `path`; an AppError stays itself. */
export function toFileError(error: unknown, call: string, path: string): AppError {
  if (error instanceof AppError) return error;
  return new AppError(
    "OS_FILE_FAILED",
    { call, path, reason: messageOf(error), errno: errnoOf(error) },
    { cause: error },
  );
}
