// SPDX-License-Identifier: Apache-2.0
// How is a unix socket reached whose path is longer than the kernel takes?
import { open } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { basename, dirname } from "node:path";
import { toFileError } from "./file-errors.ts";

/** Bytes of a socket's path, with the zero at its end. Source: linux/un.h UNIX_PATH_MAX. */
const PATH_MAX_BYTES = 108;

function connectTo(path: string): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  const socket = connect(path);
  socket.once("error", reject);
  socket.once("connect", () => {
    socket.off("error", reject);
    resolve(socket);
  });
  return promise;
}

async function connectBelow(path: string): Promise<Socket> {
  const directory = await open(dirname(path), "r");
  try {
    return await connectTo(`/proc/self/fd/${String(directory.fd)}/${basename(path)}`);
  } finally {
    await directory.close();
  }
}

/**
 * Connects to a unix socket; its path may be of any length.
 * @throws AppError with OS_FILE_FAILED
 */
export async function connectUnixSocket(path: string): Promise<Socket> {
  try {
    const isShort = Buffer.byteLength(path) < PATH_MAX_BYTES;
    return await (isShort ? connectTo(path) : connectBelow(path));
  } catch (error) {
    throw toFileError(error, "connect", path);
  }
}
