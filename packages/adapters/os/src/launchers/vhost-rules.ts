// SPDX-License-Identifier: Apache-2.0
// Which sockets a launcher may use, and who owns the directories they are in. Pure.
import type { BigIntStats } from "node:fs";
import { VHOST_USER_DIR, VHOST_USER_SHOWN_DIR } from "@patchbay/api/names";
import { AppError } from "@patchbay/core/errors";

/** The users and groups of a node that share sockets. */
export interface VhostOwners {
  /** User and group of all launchers. */
  readonly uid: number;
  /** Group of a dataplane that is not root, whose members make sockets; unset or 0: only root makes them. */
  readonly dataplaneGroup?: number;
}

/** The group may connect, which is to write. Source: unix(7). */
export const GROUP_ACCESS = 0o060;

/** Group and mode of a directory that root owns. */
export interface DirectoryAccess {
  readonly gid: number;
  readonly mode: number;
}

/** Only root writes, and only the group reads. */
export const DIRECTORY_MODE = 0o750;
/** The group writes too, and new files inherit the group of the directory. Source: inode(7), S_ISGID. */
const SHARED_MODE = 0o2770;
/** Two names that are no way out. Source: packages/adapters/cni/native/patchbay-vhost-user.c, is_name */
const ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

/** An absolute path of the node, from its `/run` on. */
export function fromRun(path: string): string {
  return path.slice("/run/".length);
}

/**
 * A socket's path from the node's `/run` on: directories above it may not exist yet.
 * @throws AppError with OS_PATH_REFUSED when it is not below the directory of sockets
 */
export function socketFromRun(path: string): string {
  if (path.startsWith(`${VHOST_USER_DIR}/`)) return fromRun(path);
  throw new AppError("OS_PATH_REFUSED", { path, reason: `it is not below ${VHOST_USER_DIR}` });
}

/** The path, from the node's `/run` on, under which the launcher's directory has the socket. */
export function shownFromRun(path: string): string {
  socketFromRun(path);
  return fromRun(`${VHOST_USER_SHOWN_DIR}${path.slice(VHOST_USER_DIR.length)}`);
}

/** A socket that replaced another has another number, or another birth time if the file system reuses numbers. */
export function socketId({ ino, birthtimeNs }: Pick<BigIntStats, "ino" | "birthtimeNs">): number {
  return Number(BigInt.asUintN(52, birthtimeNs ^ (ino << 32n)));
}

/** Why a launcher must not use the file as a socket; undefined: it may. */
export function socketRefusal(
  status: Pick<BigIntStats, "isSocket" | "uid" | "gid">,
  { uid, dataplaneGroup = 0 }: VhostOwners,
): string | undefined {
  if (!status.isSocket()) return "it is no socket";
  if (Number(status.uid) === uid) return "the launcher has made it, not the dataplane";
  const gid = Number(status.gid);
  // Users other than root may have linked a foreign socket here. Sockets made here have the directory's group.
  if (dataplaneGroup === 0 || [dataplaneGroup, uid].includes(gid)) return undefined;
  return `its group is ${String(gid)}, not the dataplane's (${String(dataplaneGroup)}): it was made elsewhere, or by somebody else`;
}

/** Whether the launchers' group may connect to the socket. */
export function isConnectable(
  { gid, mode }: Pick<BigIntStats, "gid" | "mode">,
  { uid }: VhostOwners,
): boolean {
  return Number(gid) === uid && (Number(mode) & GROUP_ACCESS) === GROUP_ACCESS;
}

/** Launchers read the shown directory; the dataplane writes the one where sockets are made. */
export function directoryAccess(
  parent: string,
  { uid, dataplaneGroup = 0 }: VhostOwners,
): DirectoryAccess {
  if (parent === VHOST_USER_SHOWN_DIR) return { gid: uid, mode: DIRECTORY_MODE };
  return {
    gid: dataplaneGroup,
    mode: dataplaneGroup === 0 ? DIRECTORY_MODE : SHARED_MODE,
  };
}

/** Whether the name may be that of a directory of sockets. */
export function isDirectoryId(id: string): boolean {
  return ID.test(id);
}
