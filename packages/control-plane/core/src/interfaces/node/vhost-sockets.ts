// SPDX-License-Identifier: Apache-2.0
// vhost-user sockets, shared between a launcher and the node's dataplane. Neither is trusted with the directories.
//
// A pod that requests sockets has two directories of the same name on its node. The dataplane creates sockets in one,
// below VHOST_USER_DIR. The launcher mounts the other, below VHOST_USER_LAUNCHER_DIR, which has only the sockets that it may
// use.
import type { ObservedSocket, VhostSocket } from "../../nics/links/vhost-socket.ts";

export interface VhostSockets {
  /**
   * Observes the path without following symbolic links, and whether the pod's launcher can use the socket under its own
   * name. The state is `refused` for a socket that the launcher created itself, and for any file that is not a socket.
   * @throws AppError with OS_FILE_FAILED
   */
  observe(podUid: string, socket: VhostSocket): ObservedSocket;
  /**
   * Assigns the socket to the launchers' group, exposes it in the directory that the launcher mounts, and creates a symbolic
   * link to it beside the launcher's own sockets. Idempotent.
   * @throws AppError with OS_PATH_REFUSED for an unusable socket, OS_FILE_FAILED
   */
  link(podUid: string, socket: VhostSocket): void;
  /** Calls `onChange` when the path may have appeared or disappeared, until aborted. */
  watch(path: string, onChange: () => void, signal: AbortSignal): void;
}

/** The two directories of each pod. Their name is an ID of at most 64 letters, digits, `.`, `_` and `-`. */
export interface VhostDirectories {
  /** Creates the parent directories, which all pods share. @throws AppError with OS_FILE_FAILED */
  makeParents(): Promise<void>;
  /**
   * Creates both directories and their parents, owned by root. The launchers' group may read the exposed one; a dataplane
   * that is not root may write the other. Existing directories stay; other files with their names are removed.
   * @throws AppError with OS_PATH_REFUSED for an invalid ID, OS_FILE_FAILED
   */
  make(id: string): Promise<void>;
  /**
   * Removes both directories with their contents, without following symbolic links. Missing directories are success.
   * @throws AppError as `make`
   */
  remove(id: string): Promise<void>;
  list(): Promise<readonly string[]>;
}
