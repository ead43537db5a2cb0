// SPDX-License-Identifier: Apache-2.0

/** An open descriptor with its inode, because the number may refer to another file after a close. */
export interface InheritedFd {
  readonly fd: number;
  /** Inode as decimal text. */
  readonly inode: string;
}

export interface Command {
  /** Program and arguments. No shell is involved. */
  readonly argv: readonly [string, ...string[]];
  readonly stdin?: string;
  /** The complete environment. Unset: PATH only. */
  readonly env?: Readonly<Record<string, string>>;
  /** Descriptors that the program inherits as 3, 4, ... in this order. They are checked in the same tick as the start. */
  readonly inheritFds?: readonly InheritedFd[];
  /**
   * Name of the program's family, which a restarted process uses again for {@link ProcessRunner.killFamily}. The program is
   * killed when this process dies. When it ends, its descendants are killed before the result is returned, even in another
   * group or session. After exit code 0, descendants that left the group and closed the pipes may live some seconds longer.
   */
  readonly family?: string;
  /** Time limit. At the deadline the whole process group gets SIGTERM, and one second later SIGKILL. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
  /** Called for each piece of standard output, which is then not part of the result. */
  readonly onOutput?: (text: string) => void;
  /** Like `onOutput`, but for binary data. The next piece follows when the promise has resolved. */
  readonly onBytes?: (bytes: Uint8Array) => void | Promise<void>;
}

export interface CommandResult {
  /** Exit code; 128 + signal number if a signal killed the program. */
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Programs that end by themselves or at their deadline. Each has its own process group. */
export interface ProcessRunner {
  /**
   * Resolves with the result for any exit code.
   * @throws AppError with OS_PROGRAM_MISSING when there is no such program.
   * @throws AppError with OS_TIMED_OUT when the program was killed at the deadline.
   * @throws AppError with OS_DESCRIPTOR_STALE when a descriptor is closed or refers to another file. The program was not started.
   */
  run(command: Command): Promise<CommandResult>;
  /** Kills all remaining programs of the family, including those of a previous process. */
  killFamily(family: string): Promise<void>;
}
