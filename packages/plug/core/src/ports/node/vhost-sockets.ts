// SPDX-License-Identifier: Apache-2.0
// Sockets of vhost-user, which launchers share with the process of their node that serves them. Neither is trusted with
// what lies in a directory.
//
// A pod that asks for sockets has two directories of one name on its node: the dataplane makes sockets in one, below
// VHOST_USER_DIR; the launcher mounts the other, below VHOST_USER_SHOWN_DIR, and sees there what it may use.
import type { SeenSocket, VhostSocket } from "../../iface/links/vhost-socket.ts";

/** Sees sockets, and lets launchers use them. */
export interface VhostSockets {
  /**
   * What lies at the path, reached through no symbolic link, and whether the launcher of that pod can use it by its own
   * name. A socket that its launcher has made itself is refused, as is what is no socket.
   * @throws AppError with OS_FILE_FAILED
   */
  look(podUid: string, socket: VhostSocket): SeenSocket;
  /**
   * Gives the socket to the launchers' group, shows it under its name in the directory that the launcher mounts, and puts a
   * symbolic link to it beside the launcher's own sockets. May be repeated.
   * @throws AppError with OS_PATH_REFUSED for what cannot be used, OS_FILE_FAILED
   */
  link(podUid: string, socket: VhostSocket): void;
  /** Calls `changed` when something of that path may have come or gone, until aborted. */
  watch(path: string, changed: () => void, signal: AbortSignal): void;
}

/** The two directories of each pod that asks for sockets, under an ID: letters, digits, `.`, `_` and `-`, at most 64. */
export interface VhostDirectories {
  /** Makes what is above them, for who serves all of them. @throws AppError with OS_FILE_FAILED */
  makeParents(): Promise<void>;
  /**
   * Makes both, and what is above them: root's, the one that is shown open to the launchers' group, the other one to the
   * dataplane's where it is not root. Directories that are there stay; whatever else has their names goes.
   * @throws AppError with OS_PATH_REFUSED for another ID, OS_FILE_FAILED
   */
  make(id: string): Promise<void>;
  /**
   * Removes both with all that is in them, through no symbolic link; not there is success.
   * @throws AppError as `make`
   */
  remove(id: string): Promise<void>;
  /** The IDs of which something is there, sorted. */
  list(): Promise<readonly string[]>;
}
