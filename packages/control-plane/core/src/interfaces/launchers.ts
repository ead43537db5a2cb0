// SPDX-License-Identifier: Apache-2.0
import type { NetnsHandle } from "./namespaces.ts";

/** A launcher that was found and verified. Descriptors stay open until `close`. */
export interface Launcher {
  /** The libvirt socket's inode (O_PATH), opened below the volume without following symbolic links. */
  readonly socketFd: number;
  /** The directory of the launcher's sockets, opened like the socket. */
  readonly directoryFd: number;
  readonly netns: NetnsHandle;
  /** The content of the pod's resolv.conf, which the pod may have changed. */
  readonly resolver?: string;
  readonly sidecars?: readonly string[];
  /** Resolves when the process behind the socket has ended (pidfd). */
  readonly ended: Promise<void>;
  close(): void;
}

/** The pod that the launcher must belong to. The UID is not trusted until the container runtime confirms it. */
export interface LauncherPod {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
}

export interface Launchers {
  /**
   * @throws AppError with LAUNCHER_UNREACHABLE while there is no socket, LAUNCHER_NOT_LISTENING while nothing listens on it;
   *   OS_PATH_REFUSED when the path or the process behind it is not as expected, or the UID is another pod's.
   */
  open(pod: LauncherPod): Promise<Launcher>;
  /** Calls `onChange` when the launcher's socket may have appeared or disappeared, until aborted. */
  watch(pod: LauncherPod, onChange: () => void, signal: AbortSignal): void;
}
