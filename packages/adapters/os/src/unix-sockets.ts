// SPDX-License-Identifier: Apache-2.0
// Publishes unix sockets, and connects to unix sockets in directories where tenants can create symbolic links. Paths
// may exceed the kernel's limit for socket paths.
import { closeSync, constants, fstatSync, opendirSync, openSync } from "node:fs";
import { chmod, rename, utimes } from "node:fs/promises";
import { createConnection, Socket } from "node:net";
import { AppError } from "@patchbay/base";
import { errnoOf, toFileError } from "./files/file-errors.ts";
import { osNative } from "./native.ts";

interface SocketLocation {
  /** Must be an existing directory that other users cannot replace, because symbolic links in this path are followed. */
  readonly directory: string;
  readonly path: string;
}

/** Errno names of openat2(2) for a symbolic link, a path that leaves the directory, and a path component that is not a directory. */
const REFUSED_ERRNOS: readonly (string | undefined)[] = ["ELOOP", "EXDEV", "ENOTDIR"];

function refusedError(location: SocketLocation, reason: string, cause?: unknown): AppError {
  const path = `${location.directory}/${location.path}`;
  return new AppError("OS_PATH_REFUSED", { path, reason }, { cause });
}

/** Opens the path with O_PATH. The caller must close the descriptor. */
function openPathFd(location: SocketLocation): number {
  const directory = openSync(location.directory, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    return osNative().openBeneath(directory, location.path, "path");
  } catch (error) {
    const errno = errnoOf(error);
    if (REFUSED_ERRNOS.includes(errno))
      throw refusedError(location, `openat2: ${errno ?? ""}`, error);
    throw error;
  } finally {
    closeSync(directory);
  }
}

function connectTo(inode: number): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  const socket = new Socket();
  socket.pause(); // The caller resumes the socket when it is ready for data.
  socket.once("error", reject);
  socket.connect(`/proc/self/fd/${String(inode)}`, () => {
    socket.off("error", reject);
    resolve(socket);
  });
  return promise;
}

/** Connects to a socket without following symbolic links. Returns a paused socket. @throws AppError with OS_FILE_FAILED, OS_PATH_REFUSED */
export async function connectUnixSocket(location: SocketLocation): Promise<Socket> {
  let inode: number | undefined;
  try {
    inode = openPathFd(location);
    const stat = fstatSync(inode);
    if (!stat.isSocket()) throw refusedError(location, "not a socket");
    return await connectTo(inode);
  } catch (error) {
    throw toFileError(error, "connect", `${location.directory}/${location.path}`);
  } finally {
    if (inode !== undefined) closeSync(inode);
  }
}

const SOCKET_MODE = 0o600;

export function isSocketServed(path: string): Promise<boolean> {
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

/** Moves a socket to `path`, with access for its owner only. @throws AppError with OS_FILE_FAILED */
export async function publishSocket(socketPath: string, path: string): Promise<void> {
  try {
    await chmod(socketPath, SOCKET_MODE);
    await rename(socketPath, path);
  } catch (error) {
    throw toFileError(error, "rename", path);
  }
}

/** Sets the access and modification times of a file. @throws AppError with OS_FILE_FAILED */
export async function touchFile(path: string, nowMs: number): Promise<void> {
  const seconds = nowMs / 1000;
  try {
    await utimes(path, seconds, seconds);
  } catch (error) {
    throw toFileError(error, "utimes", path);
  }
}

interface OpenVolumeSocket {
  readonly fd: number;
  close(): void;
}

/** Maximum number of files in a volume that is meant for one socket. */
const FILES_MAX = 64;

function openVolume(volume: SocketLocation): number {
  const directory = openSync(volume.directory, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    return osNative().openBeneath(directory, volume.path, "directory");
  } catch (error) {
    if (REFUSED_ERRNOS.includes(errnoOf(error)))
      throw refusedError(volume, "a link or no directory", error);
    throw error;
  } finally {
    closeSync(directory);
  }
}

function listNames(fd: number, volume: SocketLocation): readonly string[] {
  const directory = opendirSync(`/proc/self/fd/${String(fd)}`);
  const names: string[] = [];
  try {
    for (let entry = directory.readSync(); entry !== null; entry = directory.readSync()) {
      names.push(entry.name);
      if (names.length > FILES_MAX)
        throw refusedError(volume, `more than ${String(FILES_MAX)} files`);
    }
  } finally {
    directory.closeSync();
  }
  return names.toSorted();
}

function openIfSocket(
  directoryFd: number,
  name: string,
  volume: SocketLocation,
): number | undefined {
  let fd: number;
  try {
    fd = osNative().openBeneath(directoryFd, name, "path");
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === "ENOENT") return undefined;
    if (REFUSED_ERRNOS.includes(errno)) throw refusedError(volume, "a link in it", error);
    throw error;
  }
  const stat = fstatSync(fd);
  if (stat.isSocket()) return fd;
  closeSync(fd);
  // A symbolic link in the volume could lead to a socket of another owner.
  if (stat.isSymbolicLink()) throw refusedError(volume, "a link in it");
  return undefined;
}

function openOnlySocket(directoryFd: number, volume: SocketLocation): number {
  const sockets: number[] = [];
  try {
    for (const name of listNames(directoryFd, volume)) {
      const fd = openIfSocket(directoryFd, name, volume);
      if (fd !== undefined) sockets.push(fd);
    }
    const [first, second] = sockets;
    if (second !== undefined) throw refusedError(volume, "more than one socket in it");
    if (first === undefined)
      throw Object.assign(new Error("it contains no socket"), { code: "ENOENT" });
    return first;
  } catch (error) {
    for (const fd of sockets) closeSync(fd);
    throw error;
  }
}

/** Opens the only socket of a volume. @throws AppError with OS_FILE_FAILED, OS_PATH_REFUSED */
export function openVolumeSocket(volume: SocketLocation): OpenVolumeSocket {
  let directoryFd: number | undefined;
  try {
    directoryFd = openVolume(volume);
    const fd = openOnlySocket(directoryFd, volume);
    return {
      fd,
      close: () => {
        closeSync(fd);
      },
    };
  } catch (error) {
    throw toFileError(error, "open", `${volume.directory}/${volume.path}`);
  } finally {
    if (directoryFd !== undefined) closeSync(directoryFd);
  }
}
