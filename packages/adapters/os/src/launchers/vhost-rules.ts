// SPDX-License-Identifier: Apache-2.0
// Rules for the sockets that a launcher may use, and for the group and mode of the sockets' directories.
import type { BigIntStats } from "node:fs";
import { VHOST_USER_DIR, VHOST_USER_LAUNCHER_DIR } from "@patchbay/api/names";
import { AppError } from "@patchbay/base";

export interface VhostOwners {
  readonly uid: number;
  /** Group of a vhost-user dataplane that creates sockets and does not run as root. Unset or 0 if only root creates sockets. */
  readonly dataplaneGroup?: number;
}

/** Mode bits of a socket that its group may read and write. A client needs write permission to connect. Source: unix(7) */
export const GROUP_READ_WRITE_MODE = 0o060;

export interface DirectoryAccess {
  readonly gid: number;
  readonly mode: number;
}

/** Mode of directories that root can write and the group can read. */
export const DIRECTORY_MODE = 0o750;
/** Mode of directories that the group can write. New files get the directory's group. Source: inode(7), S_ISGID */
const SHARED_MODE = 0o2770;
/** Pattern of directory names, as in packages/adapters/cni/native/patchbay-vhost-user.c, is_name. */
const DIRECTORY_ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

export function relativeToRun(path: string): string {
  return path.slice("/run/".length);
}

/** Returns the path relative to the node's `/run`. @throws AppError with OS_PATH_REFUSED if it is not below VHOST_USER_DIR */
export function socketRelativeToRun(path: string): string {
  if (path.startsWith(`${VHOST_USER_DIR}/`)) return relativeToRun(path);
  throw new AppError("OS_PATH_REFUSED", { path, reason: `it is not below ${VHOST_USER_DIR}` });
}

/** Returns the path of the launcher's hard link to the socket, relative to the node's `/run`. @throws AppError with OS_PATH_REFUSED */
export function launcherPathRelativeToRun(path: string): string {
  socketRelativeToRun(path);
  return relativeToRun(`${VHOST_USER_LAUNCHER_DIR}${path.slice(VHOST_USER_DIR.length)}`);
}

/** Identifies an inode by its number and birth time, because file systems may reuse the number. */
export function computeSocketId({
  ino,
  birthtimeNs,
}: Pick<BigIntStats, "ino" | "birthtimeNs">): number {
  return Number(BigInt.asUintN(52, birthtimeNs ^ (ino << 32n)));
}

/** Returns why a launcher must not use the file as a socket. Returns undefined if the launcher may use the file. */
export function findSocketRefusal(
  status: Pick<BigIntStats, "isSocket" | "uid" | "gid">,
  { uid, dataplaneGroup = 0 }: VhostOwners,
): string | undefined {
  if (!status.isSocket()) return "it is no socket";
  if (Number(status.uid) === uid) return "the launcher has made it, not the dataplane";
  const gid = Number(status.gid);
  // The group distinguishes the dataplane's sockets from hard links to sockets of other programs.
  if (dataplaneGroup === 0 || [dataplaneGroup, uid].includes(gid)) return undefined;
  return `its group is ${String(gid)}, not the dataplane's (${String(dataplaneGroup)}): it was made elsewhere, or by somebody else`;
}

export function isConnectable(
  { gid, mode }: Pick<BigIntStats, "gid" | "mode">,
  { uid }: VhostOwners,
): boolean {
  return Number(gid) === uid && (Number(mode) & GROUP_READ_WRITE_MODE) === GROUP_READ_WRITE_MODE;
}

/**
 * Returns the group and mode of a pod's directory below `parent`. Launchers may only read their directories. A dataplane with its own
 * group may write to the dataplane's directories.
 */
export function chooseDirectoryAccess(
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
