// SPDX-License-Identifier: Apache-2.0
// How virt-handler reaches a launcher that it does not trust.
import type { NetnsHandle } from "./namespaces.ts";

/** A launcher that was found and checked. Descriptors stay open until `close`. */
export interface Launcher {
  /** The libvirt socket's inode, opened with O_PATH, beneath the volume, through no symbolic link. */
  readonly socketFd: number;
  /** The directory of the launcher's sockets, opened beneath the volumes in the same way. */
  readonly directoryFd: number;
  readonly netns: NetnsHandle;
  /** The pod's resolv.conf, whatever it has written there; absent: it has written none. */
  readonly resolver?: string;
  /** The hooks that the pod was made with, in their order, by their containers' names; absent: none. */
  readonly sidecars?: readonly string[];
  /** Resolves when the process behind the socket has ended (pidfd). */
  readonly ended: Promise<void>;
  close(): void;
}

/** The pod that a launcher must be of. Its uid is what somebody wrote; the runtime tells whose pod that is. */
export interface LauncherPod {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
}

/** Finds launchers. */
export interface Launchers {
  /**
   * @throws AppError with LAUNCHER_UNREACHABLE while there is no socket, LAUNCHER_NOT_LISTENING while nobody listens at it;
   *   OS_PATH_REFUSED when the path or the process behind it is not what it must be, or the uid is another pod's.
   */
  open(pod: LauncherPod): Promise<Launcher>;
  /** Calls `changed` when the launcher's socket of that pod may have come or gone, until aborted. */
  watch(pod: LauncherPod, changed: () => void, signal: AbortSignal): void;
}
