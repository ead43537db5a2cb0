// SPDX-License-Identifier: Apache-2.0
// vhost-user sockets that the node's dataplane shares with a launcher. A pod that requests sockets has two directories with the
// same name on its node. The dataplane creates sockets in the directory below VHOST_USER_DIR. The launcher mounts the directory
// below VHOST_USER_LAUNCHER_DIR, which contains only the sockets that the launcher may use.
import type { ObservedSocket, VhostSocket } from "../../nics/links/vhost-socket.ts";

export interface VhostSockets {
  /**
   * Observes the socket without following symbolic links, and checks whether the pod's launcher can use the socket. The
   * state is `refused` if the launcher created the socket itself, or if the file is not a socket.
   * @throws AppError with OS_FILE_FAILED
   */
  observe(podUid: string, socket: VhostSocket): ObservedSocket;
  /**
   * Assigns the socket to the launchers' group, exposes it in the directory that the launcher mounts, and creates a symbolic
   * link next to the launcher's own sockets. Idempotent.
   * @throws AppError with OS_FILE_FAILED, or with OS_PATH_REFUSED for an unusable socket
   */
  link(podUid: string, socket: VhostSocket): void;
  /** Calls `onChange` whenever the path may have been created or removed, until `signal` aborts. */
  watch(path: string, onChange: () => void, signal: AbortSignal): void;
}

/** The two directories of each pod. Both have the same name, an ID of at most 64 letters, digits, `.`, `_` and `-`. */
export interface VhostDirectories {
  /** Creates the parent directories, which all pods share. @throws AppError with OS_FILE_FAILED */
  makeParents(): Promise<void>;
  /**
   * Creates both directories and their parents, owned by root. The launchers' group may read the launcher's directory. The dataplane's
   * directory is also writable for a dataplane that does not run as root. Keeps existing directories and removes other files with the same
   * names.
   * @throws AppError with OS_FILE_FAILED, or with OS_PATH_REFUSED for an invalid ID
   */
  make(id: string): Promise<void>;
  /**
   * Removes both directories with their contents, without following symbolic links. Succeeds if the directories do not exist.
   * @throws AppError with the same codes as `make`
   */
  remove(id: string): Promise<void>;
  list(): Promise<readonly string[]>;
}
