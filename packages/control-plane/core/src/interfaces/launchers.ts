// SPDX-License-Identifier: Apache-2.0
import type { NetnsHandle } from "./namespaces.ts";

/** A launcher whose identity was verified. Its descriptors are valid until `close`. */
export interface Launcher {
  /** O_PATH descriptor of the libvirt socket, opened without following symbolic links. */
  readonly socketFd: number;
  /** Descriptor of the directory with the launcher's sockets, opened without following symbolic links. */
  readonly directoryFd: number;
  readonly netns: NetnsHandle;
  /** Untrusted content of the pod's resolv.conf. */
  readonly resolver?: string;
  readonly sidecars?: readonly string[];
  readonly isMeshed?: true;
  /** Resolves when the process that listens on the socket has exited. */
  readonly ended: Promise<void>;
  close(): void;
}

/** Pod in which a launcher is expected. Its UID is not trusted until the container runtime confirms it. */
export interface LauncherPod {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
}

export interface Launchers {
  /**
   * @throws AppError with LAUNCHER_UNREACHABLE while the socket does not exist, LAUNCHER_NOT_LISTENING while no process listens
   * on the socket, OS_PATH_REFUSED if the path, the listening process or the UID fails verification
   */
  open(pod: LauncherPod): Promise<Launcher>;
  /** Calls `onChange` whenever the launcher's socket may have been created or removed, until `signal` aborts. */
  watch(pod: LauncherPod, onChange: () => void, signal: AbortSignal): void;
}
