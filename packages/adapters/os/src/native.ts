// SPDX-License-Identifier: Apache-2.0
// The types of the addon in native/, and the only file that loads it.
import { createRequire } from "node:module";

/** The process behind a unix socket. Source: unix(7) SO_PEERCRED. */
export interface Peer {
  /** 0 when it is in no pid namespace that we see. */
  readonly pid: number;
  readonly uid: number;
  readonly gid: number;
}

/** Links of which a message told. */
export interface LinksRead {
  readonly links: readonly { readonly index: number; readonly name?: string }[];
  readonly isComplete: boolean;
}

/** A number in a frame, in the order of the network. */
export interface FrameTest {
  /** Where it begins, bytes. */
  readonly offset: number;
  /** 1, 2 or 4 bytes. */
  readonly size: number;
  readonly value: number;
}

/** What was heard. */
export interface FramesRead {
  readonly frames: readonly {
    readonly port: number;
    readonly isOutgoing: boolean;
    readonly frame: Uint8Array;
  }[];
  readonly unheard: readonly number[];
  readonly unsent: readonly number[];
}

/** System calls that Node.js lacks; failures are errors with `code`, as those of node:fs. */
export interface OsNative {
  /** `path` below the open directory, through no symbolic link. Source: openat2(2). */
  openBeneath(directoryFd: number, path: string, kind: "path" | "directory" | "read"): number;
  /** Sets an extended attribute of what the path leads to. Source: setxattr(2). */
  setAttribute(path: string, name: string, value: string): void;
  /** Connects once to an O_PATH socket, without waiting, and answers who listens. */
  connectPeer(socketFd: number): Peer;
  /** Whether the open file has the lock now; the kernel gives it back with the last copy of it. Source: flock(2). */
  lockDescriptor(fd: number): boolean;
  /** No program that is started from now on gets a descriptor that is not handed to it. */
  sealDescriptors(): void;
  /**
   * Removes a file or a tree of any depth, through no symbolic link; what is immutable too. Not there is success. EBUSY:
   * a mount is in it, and stays. The path is absolute.
   */
  removeTree(path: string): Promise<void>;
  socketPair(): [number, number];
  sendDescriptor(endFd: number, fd: number, token: number): void;
  receiveDescriptor(endFd: number): { readonly fd: number; readonly token: number };
  /** A pidfd. Source: pidfd_open(2). */
  openProcess(pid: number): number;
  hasEnded(pidfd: number): boolean;
  /** Calls once when the process has ended; keeps a copy of the descriptor. Answers the number for `cancelEnd`. */
  watchEnd(pidfd: number, ended: () => void): number;
  cancelEnd(watch: number): void;
  /**
   * Starts a program in a session of its own, on another thread; `env` is KEY=VALUE, `fds` are what it gets as 3, 4, ...,
   * whose descriptors may be closed at once. The caller closes the ends of pipes and the pidfd. Source: vfork(2).
   */
  startProgram(
    argv: readonly string[],
    env: readonly string[],
    fds: readonly number[],
    hasInput: boolean,
    diesWithParent: boolean,
  ): {
    /** -1: it has none. */
    readonly input: number;
    readonly output: number;
    readonly errors: number;
    readonly started: Promise<{ readonly pid: number; readonly pidfd: number }>;
  };
  /**
   * How such a program, whose end was seen, has ended: its code, or -1 and the signal's number; whether others are left in its
   * group. Once.
   */
  reapProgram(pid: number): {
    readonly code: number;
    readonly signal: number;
    readonly hasLeft: boolean;
  };
  /**
   * Watches the links of that network namespace, whose descriptor may be closed at once: calls once when there is
   * something to read, and once more for each `armLinks`. Answers the number for the other three. Source: rtnetlink(7).
   */
  watchLinks(netnsFd: number, readable: () => void): number;
  /** What has changed since the last reading, bounded; not complete when more was lost or is left. */
  readLinks(watch: number): LinksRead;
  armLinks(watch: number): void;
  cancelLinks(watch: number): void;
  /**
   * Says messages to the kernel in that network namespace, whose descriptor may be closed at once, until one is refused.
   * Source: netlink(7).
   */
  talkNetlink(
    netnsFd: number,
    protocol: number,
    messages: readonly Uint8Array[],
  ): Promise<readonly { readonly data: Uint8Array; readonly errno: number }[]>;
  /** Makes a tap that stays. Equivalent to: `ip tuntap add dev NAME mode tap [multi_queue] user ID group ID` */
  makeTap(netnsFd: number, name: string, owner: number, takesMany: boolean): Promise<void>;
  /** Sends frames out of a link, as they are. Source: packet(7). */
  sendFrames(netnsFd: number, link: string, frames: readonly Uint8Array[]): Promise<void>;
  /**
   * Sends frames, and hears for so many milliseconds those that pass all tests of one of the groups, which come in the order
   * of the lengths of their frames; the first 400 bytes of 64 frames of each port at most. `unheard` and `unsent` are errno
   * of each port and frame, 0 for none. Source: packet(7).
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
  /** Lines PATH:VALUE of settings below /proc/sys/net, as that network namespace has them. Source: glob(3). */
  readSettings(netnsFd: number, patterns: readonly string[]): Promise<string>;
  /** The text of `/proc/net/dev` in that network namespace, whose descriptor may be closed at once; 256 KiB at most. */
  readLinkCounters(netnsFd: number): Promise<string>;
  /** Becomes that user for ever: no groups, no capability, empty bounding set, no_new_privs, in every thread. */
  dropPrivileges(uid: number, gid: number): void;
}

// The addon's shape is fixed by native/*.cc, which is built with this file.
const load = createRequire(import.meta.url) as (path: string) => OsNative;
let loaded: OsNative | undefined;

/** The addon; loaded at the first call. */
export function osNative(): OsNative {
  loaded ??= load("../build/os.node");
  return loaded;
}
