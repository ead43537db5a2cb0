// SPDX-License-Identifier: Apache-2.0
// How is a unix socket reached that lies where somebody else may put links, and whose path may be longer than the kernel takes?
import { closeSync, constants, fstatSync, openSync } from "node:fs";
import { Socket } from "node:net";
import { AppError } from "@patchbay/core/errors";
import { errnoOf, toFileError } from "../files/file-errors.ts";
import { osNative } from "../native.ts";

/** Where a socket is. */
export interface SocketPlace {
  /** Trusted, and there. */
  readonly directory: string;
  /** From there on; no part of it may be a symbolic link. */
  readonly path: string;
}

/** What openat2 says of a path that leads elsewhere: a link, a way out, a file where a directory must be. */
const REFUSED: readonly (string | undefined)[] = ["ELOOP", "EXDEV", "ENOTDIR"];

function refused(place: SocketPlace, reason: string, cause?: unknown): AppError {
  const path = `${place.directory}/${place.path}`;
  return new AppError("OS_PATH_REFUSED", { path, reason }, { cause });
}

/** The socket's inode, open (O_PATH); the caller closes it. */
function openInode(place: SocketPlace): number {
  const directory = openSync(place.directory, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    return osNative().openBeneath(directory, place.path, "path");
  } catch (error) {
    const errno = errnoOf(error);
    if (REFUSED.includes(errno)) throw refused(place, `openat2: ${errno ?? ""}`, error);
    throw error;
  } finally {
    closeSync(directory);
  }
}

function connectTo(inode: number): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  const socket = new Socket();
  socket.pause(); // nothing is read before somebody wants it
  socket.once("error", reject);
  socket.connect(`/proc/self/fd/${String(inode)}`, () => {
    socket.off("error", reject);
    resolve(socket);
  });
  return promise;
}

/**
 * Connects to the unix socket that is there itself, through no link; its path may be of any length. The socket is
 * paused: it reads once it is resumed, piped or listened to.
 * @throws AppError with OS_FILE_FAILED, and with OS_PATH_REFUSED for links and for what is no socket
 */
export async function connectUnixSocket(place: SocketPlace): Promise<Socket> {
  let inode: number | undefined;
  try {
    inode = openInode(place);
    const stat = fstatSync(inode);
    if (!stat.isSocket()) throw refused(place, "not a socket");
    return await connectTo(inode);
  } catch (error) {
    throw toFileError(error, "connect", `${place.directory}/${place.path}`);
  } finally {
    if (inode !== undefined) closeSync(inode);
  }
}
