// SPDX-License-Identifier: Apache-2.0
import { closeSync, constants, fstatSync, openSync, statfsSync } from "node:fs";
import type { Files, Namespaces } from "@patchbay/core/interfaces";
import { errnoOf, isMissing, toFileError } from "./files/file-errors.ts";

/** File system type of namespaces. Source: linux/magic.h NSFS_MAGIC */
const NSFS_MAGIC = 0x6e736673;

function openPath(path: string): number | undefined {
  try {
    return openSync(path, constants.O_RDONLY);
  } catch (error) {
    if (isMissing(error) || errnoOf(error) === "ESRCH") return undefined;
    throw toFileError(error, "open", path);
  }
}

/** Returns the inode of the network namespace of process `pid` (default: this one), in decimal. @throws AppError with OS_FILE_FAILED */
export function readNetnsInode(pid?: number): string {
  const path = `/proc/${pid === undefined ? "self" : String(pid)}/ns/net`;
  const netns = createNamespaces().open(path);
  netns?.close();
  if (netns !== undefined) return netns.inode;
  throw toFileError(new Error("it is not a network namespace"), "open", path);
}

export function createNamespaces(): Namespaces {
  return {
    open: (path) => {
      const fd = openPath(path);
      if (fd === undefined) return undefined;
      // Checks the opened file by its descriptor, because another process may meanwhile have replaced the file at the path.
      if (statfsSync(`/proc/self/fd/${String(fd)}`).type !== NSFS_MAGIC) {
        closeSync(fd);
        return undefined;
      }
      return {
        fd,
        inode: fstatSync(fd, { bigint: true }).ino.toString(),
        close: () => {
          closeSync(fd);
        },
      };
    },
  };
}

export interface ListeningPort {
  readonly protocol: "tcp" | "udp";
  readonly port: number;
  readonly isLoopback: boolean;
}

/** Files of sockets, with the states of sockets that receive from any address. Source: Linux, TCP_LISTEN and TCP_CLOSE. */
const SOCKET_FILES = [
  { name: "tcp", protocol: "tcp", state: "0A" },
  { name: "tcp6", protocol: "tcp", state: "0A" },
  { name: "udp", protocol: "udp", state: "07" },
  { name: "udp6", protocol: "udp", state: "07" },
] as const;

/** Matches 127.0.0.0/8, the same as a mapped IPv6 address, and ::1, with the bytes of each word in reverse. */
const LOOPBACK = /^(?:(?:0{16}FFFF0{4})?[0-9A-F]{6}7F|0{24}01000000)$/;

/** Lists the ports on which processes of a network namespace listen. `directory` is `/proc/PID/net`. Returns undefined if it cannot be read. */
export async function listListeningPorts(
  files: Pick<Files, "readText">,
  directory: string,
): Promise<readonly ListeningPort[] | undefined> {
  const ports: ListeningPort[] = [];
  for (const { name, protocol, state } of SOCKET_FILES) {
    const text = await files.readText(`${directory}/${name}`);
    if (text === undefined && name === "tcp") return undefined;
    for (const line of text?.split("\n").slice(1) ?? []) {
      const [, local = "", , lineState] = line.trim().split(/\s+/);
      const [address = "", hexPort = ""] = local.split(":");
      const port = Number.parseInt(hexPort, 16);
      if (lineState === state && port > 0)
        ports.push({ protocol, port, isLoopback: LOOPBACK.test(address) });
    }
  }
  return ports;
}
