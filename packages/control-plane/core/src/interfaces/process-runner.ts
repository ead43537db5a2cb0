// SPDX-License-Identifier: Apache-2.0

/** An open descriptor and the inode of its file. The inode shows whether the descriptor's number was reused after a close. */
export interface InheritedFd {
  readonly fd: number;
  /** Inode of the file as decimal text. */
  readonly inode: string;
}

export interface Command {
  /** Program and arguments, which are not passed through a shell. */
  readonly argv: readonly [string, ...string[]];
  readonly stdin?: string;
  /** Complete environment of the program. Unset: only PATH is set. */
  readonly env?: Readonly<Record<string, string>>;
  /** Descriptors that the program inherits as 3, 4, ... in this order. Their inodes are verified immediately before the start. */
  readonly inheritFds?: readonly InheritedFd[];
  /**
   * Name of a group of programs, which {@link ProcessRunner.killProcessFamily} kills, even after this process was restarted. A program of a
   * family is killed when this process dies. When the program exits, its descendants are killed before the result is returned. Exception:
   * after exit code 0, descendants that have left the process group and closed the pipes may run a few seconds longer.
   */
  readonly processFamily?: string;
  /** Time limit in milliseconds. At the deadline the process group receives SIGTERM, and SIGKILL one second later. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
  /** Receives standard output in chunks. If set, the result contains no standard output. */
  readonly onOutput?: (text: string) => void;
  /** Receives standard output in binary chunks. The next chunk is delivered when the returned promise has resolved. */
  readonly onBytes?: (bytes: Uint8Array) => void | Promise<void>;
}

export interface CommandResult {
  /** Exit code of the program, or 128 plus the signal number if a signal killed the program. */
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs programs until they exit or reach their deadline. Each program has its own process group. */
export interface ProcessRunner {
  /**
   * Runs a program and resolves for any exit code.
   * @throws AppError with OS_PROGRAM_MISSING when the program does not exist, OS_TIMED_OUT when the program was killed at the
   * deadline, OS_DESCRIPTOR_STALE when a descriptor is closed or refers to another file (the program was not started)
   */
  run(command: Command): Promise<CommandResult>;
  /** Kills all remaining programs of the family, including those that an earlier process of Patchbay started. */
  killProcessFamily(family: string): Promise<void>;
}
