// SPDX-License-Identifier: Apache-2.0
// Types of the addon in native/. Only this file loads the addon.
import { createRequire } from "node:module";

/** Process at the other end of a socket. Source: unix(7) SO_PEERCRED */
export interface Peer {
  /** 0 if the process is in no pid namespace that this process sees. */
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
  /** Size of the value in bytes: 1, 2 or 4, big-endian. */
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

/** System calls that Node.js lacks. Errors have a `code` like those of node:fs. */
export interface OsNative {
  /** Opens `path` below an open directory, without following symbolic links. Source: openat2(2) */
  openBeneath(directoryFd: number, path: string, kind: "path" | "directory" | "read"): number;
  /** Sets an extended attribute; follows symbolic links. Source: setxattr(2) */
  setAttribute(path: string, name: string, value: string): void;
  /** Connects to an O_PATH socket without blocking, and returns the listening process. */
  connectPeer(socketFd: number): Peer;
  /**
   * Locks the open file and returns whether this succeeded. The kernel unlocks it with the last copy of the descriptor.
   * Source: flock(2)
   */
  lockDescriptor(fd: number): boolean;
  /** Marks all open descriptors close-on-exec. */
  sealDescriptors(): void;
  /**
   * Removes a tree of any depth, even if it is immutable, without following symbolic links. Fails with EBUSY if a mount
   * in it remains.
   */
  removeTree(path: string): Promise<void>;
  socketPair(): [number, number];
  sendDescriptor(endFd: number, fd: number, token: number): void;
  receiveDescriptor(endFd: number): { readonly fd: number; readonly token: number };
  /** Returns a pidfd. Source: pidfd_open(2) */
  openProcess(pid: number): number;
  hasEnded(pidfd: number): boolean;
  /** Calls `ended` once, when the process has ended. Copies the descriptor. Returns the number for `cancelEnd`. */
  watchEnd(pidfd: number, ended: () => void): number;
  cancelEnd(watch: number): void;
  /**
   * Starts a program in a separate session, on another thread. `env` has entries KEY=VALUE. The program gets `fds` as
   * descriptors 3, 4, ...; the caller may close them at once. The caller closes the pipes and the pidfd. Source:
   * vfork(2)
   */
  startProgram(
    argv: readonly string[],
    env: readonly string[],
    fds: readonly number[],
    hasInput: boolean,
    diesWithParent: boolean,
  ): {
    /** Descriptor of the input pipe; -1 without input. */
    readonly input: number;
    readonly output: number;
    readonly errors: number;
    readonly started: Promise<{ readonly pid: number; readonly pidfd: number }>;
  };
  /**
   * Returns the exit code, or -1 and the signal, and whether other processes remain in the group. Call it once, after
   * the end.
   */
  reapProgram(pid: number): {
    readonly code: number;
    readonly signal: number;
    readonly hasLeft: boolean;
  };
  /**
   * Watches the links of a network namespace, whose descriptor may be closed at once. Calls `readable` once, and again
   * after each `armLinks`. Returns the number for the other three calls. Source: rtnetlink(7)
   */
  watchLinks(netnsFd: number, readable: () => void): number;
  /**
   * Returns a limited number of changes since the last read. The result is incomplete if changes were lost or remain.
   */
  readLinks(watch: number): LinksRead;
  armLinks(watch: number): void;
  cancelLinks(watch: number): void;
  /**
   * Sends messages one after the other until the first error. The descriptor may be closed at once. Source: netlink(7)
   */
  talkNetlink(
    netnsFd: number,
    protocol: number,
    messages: readonly Uint8Array[],
  ): Promise<readonly { readonly data: Uint8Array; readonly errno: number }[]>;
  /** Creates a persistent tap, like `ip tuntap add dev NAME mode tap [multi_queue] user ID group ID`. */
  makeTap(netnsFd: number, name: string, owner: number, isMultiQueue: boolean): Promise<void>;
  /** Sends frames on a link. Source: packet(7) */
  sendFrames(netnsFd: number, link: string, frames: readonly Uint8Array[]): Promise<void>;
  /**
   * Sends frames, and for `ms` milliseconds captures those that pass all tests of a group, ordered by length: at most
   * 64 frames per port, and 400 bytes of each. `unheard` and `unsent` are the errno of each port and frame, 0 for
   * success. Source: packet(7)
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
  /** Returns lines PATH:VALUE of sysctls below /proc/sys/net in a network namespace. Source: glob(3) */
  readSettings(netnsFd: number, patterns: readonly string[]): Promise<string>;
  /** Returns `/proc/net/dev` of a network namespace, at most 256 KiB. The descriptor may be closed at once. */
  readLinkCounters(netnsFd: number): Promise<string>;
  /** Drops all privileges in all threads: no groups, no capabilities, empty bounding set, no_new_privs. */
  dropPrivileges(uid: number, gid: number): void;
}

// native/*.cc defines the addon's shape, and is built together with this file.
const load = createRequire(import.meta.url) as (path: string) => OsNative;
let loaded: OsNative | undefined;

export function osNative(): OsNative {
  loaded ??= load("../build/os.node");
  return loaded;
}
