// SPDX-License-Identifier: Apache-2.0
// Types of the addon in native/. Only this file loads the addon.
import { createRequire } from "node:module";

/** Process at the other end of a socket. Source: unix(7) SO_PEERCRED */
export interface Peer {
  /** PID in this process's PID namespace. 0 if the namespace does not contain the peer. */
  readonly pid: number;
  readonly uid: number;
  readonly gid: number;
}

export interface LinksRead {
  readonly links: readonly { readonly index: number; readonly name?: string }[];
  readonly isComplete: boolean;
}

export interface FrameTest {
  readonly offset: number;
  /** Size of the big-endian value, in bytes: 1, 2 or 4. */
  readonly size: number;
  readonly value: number;
}

export interface FramesRead {
  readonly frames: readonly {
    readonly port: number;
    readonly isOutgoing: boolean;
    readonly frame: Uint8Array;
  }[];
  readonly unheard: readonly number[];
  readonly unsent: readonly number[];
}

/** System calls that Node.js lacks. Errors have a `code`, like errors of node:fs. */
export interface OsNative {
  /** Opens `path` below an open directory, without following symbolic links. Source: openat2(2) */
  openBeneath(directoryFd: number, path: string, kind: "path" | "directory" | "read"): number;
  /** Sets an extended attribute. Follows symbolic links. Source: setxattr(2) */
  setAttribute(path: string, name: string, value: string): void;
  /** Connects to a socket that was opened with O_PATH, and returns the listening process. Does not block. */
  connectPeer(socketFd: number): Peer;
  /** Locks a file until the last copy of `fd` is closed. Returns false if another process has the lock. Source: flock(2) */
  lockDescriptor(fd: number): boolean;
  sealDescriptors(): void;
  /** Removes a tree, including immutable files, without following links. Fails with EBUSY if a file system is mounted in it. */
  removeTree(path: string): Promise<void>;
  socketPair(): [number, number];
  sendDescriptor(endFd: number, fd: number, token: number): void;
  receiveDescriptor(endFd: number): { readonly fd: number; readonly token: number };
  /** Returns a pidfd. Source: pidfd_open(2) */
  openProcess(pid: number): number;
  hasEnded(pidfd: number): boolean;
  /** Calls `ended` once, after the process ended. Copies `pidfd`, so the caller may close it. Returns the watch to pass to `cancelEnd`. */
  watchEnd(pidfd: number, ended: () => void): number;
  cancelEnd(watch: number): void;
  /**
   * Starts a program in a new session. Entries of `env` have the form KEY=VALUE. The program inherits `fds` as descriptors 3, 4, and so on.
   * The caller may close `fds` immediately, and must close the pipes and the pidfd. Source: vfork(2)
   */
  startProgram(
    argv: readonly string[],
    env: readonly string[],
    fds: readonly number[],
    hasInput: boolean,
    diesWithParent: boolean,
  ): {
    /** Descriptor of the input pipe. -1 if the program gets no input. */
    readonly input: number;
    readonly output: number;
    readonly errors: number;
    readonly started: Promise<{ readonly pid: number; readonly pidfd: number }>;
  };
  /**
   * Returns the exit code, or -1 if a signal ended the program. `hasLeft` is true if processes remain in the program's
   * group. Callers must call this method exactly once, after the program has ended.
   */
  reapProgram(pid: number): {
    readonly code: number;
    readonly signal: number;
    readonly hasLeft: boolean;
  };
  /**
   * Watches links of a network namespace. Calls `readable` at the first change. Each `armLinks` allows one more call, at the next change.
   * Copies `netnsFd`, so the caller may close it. Returns the watch to pass to `readLinks`, `armLinks` and `cancelLinks`.
   * Source: rtnetlink(7)
   */
  watchLinks(netnsFd: number, readable: () => void): number;
  /** Returns changes since the last call. The result is incomplete if changes were lost or remain to be read. */
  readLinks(watch: number): LinksRead;
  armLinks(watch: number): void;
  cancelLinks(watch: number): void;
  /** Sends messages in order, until the first error. Copies `netnsFd`, so the caller may close it. Source: netlink(7) */
  talkNetlink(
    netnsFd: number,
    protocol: number,
    messages: readonly Uint8Array[],
  ): Promise<readonly { readonly data: Uint8Array; readonly errno: number }[]>;
  /** Creates a persistent tap, like `ip tuntap add dev NAME mode tap [multi_queue] user ID group ID`. */
  makeTap(netnsFd: number, name: string, owner: number, isMultiQueue: boolean): Promise<void>;
  /** Source: packet(7) */
  sendFrames(netnsFd: number, link: string, frames: readonly Uint8Array[]): Promise<void>;
  /**
   * Sends frames. For `ms` milliseconds, captures frames that pass all tests of at least one group. Returns at most 64
   * frames per port, and 400 bytes of each frame. `unheard` contains the errno of each port, and `unsent` the errno of
   * each sent frame. Errno 0 means success. Source: packet(7)
   */
  exchangeFrames(
    ports: readonly { readonly netnsFd: number; readonly link: string }[],
    sends: readonly {
      readonly port: number;
      readonly frame: Uint8Array;
      readonly checksum?: { readonly from: number; readonly at: number };
    }[],
    groups: readonly (readonly FrameTest[])[],
    ms: number,
  ): Promise<FramesRead>;
  /**
   * Watches frames of a link that pass all tests of at least one group of their direction. Calls `readable` at the first frame. Each
   * `armFrames` allows one more call. The caller may close `netnsFd`. Returns the watch to pass to the other
   * methods. Source: packet(7)
   */
  watchFrames(
    netnsFd: number,
    link: string,
    incoming: readonly (readonly FrameTest[])[],
    outgoing: readonly (readonly FrameTest[])[],
    readable: () => void,
  ): number;
  filterFrames(
    watch: number,
    incoming: readonly (readonly FrameTest[])[],
    outgoing: readonly (readonly FrameTest[])[],
  ): void;
  /** Returns at most 64 frames, and 400 bytes of each frame. */
  readFrames(
    watch: number,
  ): readonly { readonly isOutgoing: boolean; readonly frame: Uint8Array }[];
  armFrames(watch: number): void;
  cancelFrames(watch: number): void;
  /** Reads sysctls below /proc/sys/net in a network namespace. Returns lines of the form PATH:VALUE. Source: glob(3) */
  readSettings(netnsFd: number, patterns: readonly string[]): Promise<string>;
  /** Returns `/proc/net/dev` of a network namespace, cut off at about 256 KiB. Copies `netnsFd`, so the caller may close it. */
  readLinkCounters(netnsFd: number): Promise<string>;
  /** In all threads: switches to `uid` and `gid`, drops other groups and all capabilities, empties the bounding set, sets no_new_privs. */
  dropPrivileges(uid: number, gid: number): void;
}

const loadAddon = createRequire(import.meta.url) as (path: string) => OsNative;
let loadedAddon: OsNative | undefined;

export function osNative(): OsNative {
  loadedAddon ??= loadAddon("../build/os.node");
  return loadedAddon;
}
