// SPDX-License-Identifier: Apache-2.0
// Pure rules for the sockets that a launcher may use, and the owners of their directories.
import type { BigIntStats } from "node:fs";
import { VHOST_USER_DIR, VHOST_USER_LAUNCHER_DIR } from "@patchbay/api/names";
import { AppError } from "@patchbay/base";

export interface VhostOwners {
  readonly uid: number;
  /**
   * Group of a dataplane that does not run as root and whose members create sockets; unset or 0 if only root creates
   * them.
   */
  readonly dataplaneGroup?: number;
}

/** Read and write access of the group. Connecting requires write access. Source: unix(7) */
export const GROUP_ACCESS = 0o060;

export interface DirectoryAccess {
  readonly gid: number;
  readonly mode: number;
}

/** Mode of directories that root writes and the group reads. */
export const DIRECTORY_MODE = 0o750;
/** Mode of directories that the group writes too. New files inherit the directory's group. Source: inode(7), S_ISGID */
const SHARED_MODE = 0o2770;
/**
 * Syntax of a directory's name, a single path component. Source: packages/adapters/cni/native/patchbay-vhost-user.c,
 * is_name
 */
const DIRECTORY_ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

export function relativeToRun(path: string): string {
  return path.slice("/run/".length);
}

/**
 * Returns the path relative to the node's `/run`. @throws AppError with OS_PATH_REFUSED if it is outside the directory
 * of sockets
 */
export function socketRelativeToRun(path: string): string {
  if (path.startsWith(`${VHOST_USER_DIR}/`)) return relativeToRun(path);
  throw new AppError("OS_PATH_REFUSED", { path, reason: `it is not below ${VHOST_USER_DIR}` });
}

/** Returns the path, relative to the node's `/run`, where the launcher sees the socket. */
export function shownRelativeToRun(path: string): string {
  socketRelativeToRun(path);
  return relativeToRun(`${VHOST_USER_LAUNCHER_DIR}${path.slice(VHOST_USER_DIR.length)}`);
}

/** Identifies the inode by number and birth time, because file systems may reuse inode numbers. */
export function socketId({ ino, birthtimeNs }: Pick<BigIntStats, "ino" | "birthtimeNs">): number {
  return Number(BigInt.asUintN(52, birthtimeNs ^ (ino << 32n)));
}

/** Returns why a launcher must not use the file as a socket; undefined if it may. */
export function findSocketRefusal(
  status: Pick<BigIntStats, "isSocket" | "uid" | "gid">,
  { uid, dataplaneGroup = 0 }: VhostOwners,
): string | undefined {
  if (!status.isSocket()) return "it is no socket";
  if (Number(status.uid) === uid) return "the launcher has made it, not the dataplane";
  const gid = Number(status.gid);
  // Users other than root may have linked another owner's socket. Sockets created here have the directory's group.
  if (dataplaneGroup === 0 || [dataplaneGroup, uid].includes(gid)) return undefined;
  return `its group is ${String(gid)}, not the dataplane's (${String(dataplaneGroup)}): it was made elsewhere, or by somebody else`;
}

export function isConnectable(
  { gid, mode }: Pick<BigIntStats, "gid" | "mode">,
  { uid }: VhostOwners,
): boolean {
  return Number(gid) === uid && (Number(mode) & GROUP_ACCESS) === GROUP_ACCESS;
}

/** Returns owner and mode of a directory. Launchers read their directory; the dataplane writes to the other one. */
export function directoryAccess(
  parent: string,
  { uid, dataplaneGroup = 0 }: VhostOwners,
): DirectoryAccess {
  if (parent === VHOST_USER_LAUNCHER_DIR) return { gid: uid, mode: DIRECTORY_MODE };
  return {
    gid: dataplaneGroup,
    mode: dataplaneGroup === 0 ? DIRECTORY_MODE : SHARED_MODE,
  };
}

export function isDirectoryId(id: string): boolean {
  return DIRECTORY_ID.test(id);
}
