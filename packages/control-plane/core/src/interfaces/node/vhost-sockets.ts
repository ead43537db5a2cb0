// SPDX-License-Identifier: Apache-2.0
// vhost-user sockets that dataplanes create below VHOST_USER_DIR and launchers mount below
// VHOST_USER_LAUNCHER_DIR.
import type { ObservedSocket, VhostSocket } from "../../nics/links/vhost-socket.ts";

export interface VhostSockets {
  /**
   * Follows no symbolic links. Reports `refused` for non-sockets and for sockets created by the
   * launcher.
   * @throws AppError with OS_FILE_FAILED
   */
  observe(podUid: string, socket: VhostSocket): ObservedSocket;
  /**
   * Assigns the socket to the launchers' group and exposes it in the launcher's directory.
   * Idempotent.
   * @throws AppError with OS_FILE_FAILED, or with OS_PATH_REFUSED for an unusable socket
   */
  link(podUid: string, socket: VhostSocket): void;
  /** Calls `onChange` whenever the path may have been created or removed, until `signal` aborts. */
  watch(path: string, onChange: () => void, signal: AbortSignal): void;
}

/** Two directories per pod. Their name has at most 64 letters, digits, `.`, `_` and `-`. */
export interface VhostDirectories {
  /** Creates the parent directories, which all pods share. @throws AppError with OS_FILE_FAILED */
  makeParents(): Promise<void>;
  /**
   * Creates both directories: one writable by the dataplane, one readable by the launchers' group.
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
