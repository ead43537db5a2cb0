// SPDX-License-Identifier: Apache-2.0
import { AppError, messageOf } from "@patchbay/base";

/** Returns the errno name of a system error, for example `ENOENT`. Returns undefined for other errors. */
export function errnoOf(error: unknown): string | undefined {
  return error instanceof Error && "code" in error && typeof error.code === "string"
    ? error.code
    : undefined;
}

export function isMissing(error: unknown): boolean {
  const errno = errnoOf(error);
  return errno === "ENOENT" || errno === "ENOTDIR";
}

/** Converts a failure of the system call `call` on `path`. Returns an AppError unchanged. */
export function toFileError(error: unknown, call: string, path: string): AppError {
  if (error instanceof AppError) return error;
  return new AppError(
    "OS_FILE_FAILED",
    { call, path, reason: messageOf(error), errno: errnoOf(error) },
    { cause: error },
  );
}
