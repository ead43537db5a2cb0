// SPDX-License-Identifier: Apache-2.0
// Which socket lies in a volume that somebody else fills, under whatever name? Its inode, through no link.
import { closeSync, constants, fstatSync, opendirSync, openSync } from "node:fs";
import { AppError } from "@patchbay/core/errors";
import { errnoOf, toFileError } from "../files/file-errors.ts";
import { osNative } from "../native.ts";
import type { SocketPlace } from "./unix-socket.ts";

/** A socket's inode, open (O_PATH). */
export interface OpenVolumeSocket {
  readonly fd: number;
  close(): void;
}

/** Names that are looked at: a volume of one socket has few others. */
const NAMES_MAX = 64;

/** What openat2 says of a path that leads elsewhere: a link, a way out, a file where a directory must be. */
const REFUSED: readonly (string | undefined)[] = ["ELOOP", "EXDEV", "ENOTDIR"];

function refused({ directory, path }: SocketPlace, reason: string, cause?: unknown): AppError {
  return new AppError("OS_PATH_REFUSED", { path: `${directory}/${path}`, reason }, { cause });
}

function openVolume(volume: SocketPlace): number {
  const directory = openSync(volume.directory, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    return osNative().openBeneath(directory, volume.path, "directory");
  } catch (error) {
    if (REFUSED.includes(errnoOf(error))) throw refused(volume, "a link or no directory", error);
    throw error;
  } finally {
    closeSync(directory);
  }
}

function namesIn(fd: number, volume: SocketPlace): readonly string[] {
  const directory = opendirSync(`/proc/self/fd/${String(fd)}`);
  const names: string[] = [];
  try {
    for (let entry = directory.readSync(); entry !== null; entry = directory.readSync()) {
      names.push(entry.name);
      if (names.length > NAMES_MAX) throw refused(volume, `more than ${String(NAMES_MAX)} files`);
    }
  } finally {
    directory.closeSync();
  }
  return names.toSorted();
}

/** The socket of that name; undefined: it is something else, or gone. */
function openIfSocket(directoryFd: number, name: string, volume: SocketPlace): number | undefined {
  let fd: number;
  try {
    fd = osNative().openBeneath(directoryFd, name, "path");
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === "ENOENT") return undefined;
    if (REFUSED.includes(errno)) throw refused(volume, "a link in it", error);
    throw error;
  }
  const stat = fstatSync(fd);
  if (stat.isSocket()) return fd;
  closeSync(fd);
  // Whoever puts a link there means another's socket.
  if (stat.isSymbolicLink()) throw refused(volume, "a link in it");
  return undefined;
}

function openOnly(directoryFd: number, volume: SocketPlace): number {
  const found: number[] = [];
  try {
    for (const name of namesIn(directoryFd, volume)) {
      const fd = openIfSocket(directoryFd, name, volume);
      if (fd !== undefined) found.push(fd);
    }
    const [first, second] = found;
    if (second !== undefined) throw refused(volume, "more than one socket in it");
    if (first === undefined) throw Object.assign(new Error("no socket in it"), { code: "ENOENT" });
    return first;
  } catch (error) {
    for (const fd of found) closeSync(fd);
    throw error;
  }
}

/**
 * Opens the only socket in the volume at the place; regular files and directories beside it do not matter.
 * @throws AppError with OS_FILE_FAILED when there is none, OS_PATH_REFUSED for links, for more than one and for too many files
 */
export function openVolumeSocket(volume: SocketPlace): OpenVolumeSocket {
  let directoryFd: number | undefined;
  try {
    directoryFd = openVolume(volume);
    const fd = openOnly(directoryFd, volume);
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
