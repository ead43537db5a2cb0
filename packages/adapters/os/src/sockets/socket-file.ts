// SPDX-License-Identifier: Apache-2.0
// The file of a unix socket that we serve: put in its place whole, and its time says that we live.
import { chmod, rename, utimes } from "node:fs/promises";
import { createConnection } from "node:net";
import { toFileError } from "../files/file-errors.ts";

/** Root alone may connect. */
const SOCKET_MODE = 0o600;

/** Whether somebody listens at the path. */
export function answersAt(path: string): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = createConnection(path);
  socket.once("connect", () => {
    socket.destroy();
    resolve(true);
  });
  socket.once("error", () => {
    resolve(false);
  });
  return promise;
}

/**
 * Puts the socket that is served at `made` in the place of what is at `path`, where it stays when its process ends: whoever
 * connects then is refused, and sees by the file's time since when.
 * @throws AppError with OS_FILE_FAILED
 */
export async function publishSocket(made: string, path: string): Promise<void> {
  try {
    await chmod(made, SOCKET_MODE);
    await rename(made, path);
  } catch (error) {
    throw toFileError(error, "rename", path);
  }
}

/**
 * Sets the file's time, milliseconds since 1970. Equivalent to: `touch --date=@SECONDS PATH`
 * @throws AppError with OS_FILE_FAILED
 */
export async function showAlive(path: string, nowMs: number): Promise<void> {
  const seconds = nowMs / 1000;
  try {
    await utimes(path, seconds, seconds);
  } catch (error) {
    throw toFileError(error, "utimes", path);
  }
}
