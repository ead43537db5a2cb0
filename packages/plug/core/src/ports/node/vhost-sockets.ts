// SPDX-License-Identifier: Apache-2.0
// Sockets of vhost-user, which launchers share with the process of their node that serves them. Neither is trusted with
// what lies in a directory.
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
   * Gives the socket to the launchers' group, and puts a symbolic link to it beside the launcher's own sockets. May be
   * repeated.
   * @throws AppError with OS_PATH_REFUSED for what cannot be used, OS_FILE_FAILED
   */
  link(podUid: string, socket: VhostSocket): void;
  /** Calls `changed` when something of that path may have come or gone, until aborted. */
  watch(path: string, changed: () => void, signal: AbortSignal): void;
}
