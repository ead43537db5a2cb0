// SPDX-License-Identifier: Apache-2.0

/** An open descriptor with its inode, because after a close the number may refer to another file. */
export interface InheritedFd {
  readonly fd: number;
  /** Inode, decimal text. */
  readonly inode: string;
}

export interface Command {
  /** Program and arguments. No shell is involved. */
  readonly argv: readonly [string, ...string[]];
  readonly stdin?: string;
  /** The complete environment. Unset: PATH only. */
  readonly env?: Readonly<Record<string, string>>;
  /** Inherited as 3, 4, ... in this order. Checked in the same tick as the start. */
  readonly inheritFds?: readonly InheritedFd[];
  /**
   * Name of the program's family. A restarted process uses the same names. The program is killed when this process dies.
   * When the program ends, its descendants are killed before the result is returned, in whatever group or session.
   * Exception: after a successful end, descendants that left the group and closed the pipes may live some seconds longer.
   * See also {@link ProcessRunner.killFamily}.
   */
  readonly family?: string;
  /** At this deadline the whole process group gets SIGTERM, and one second later SIGKILL. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
  /** Called for each piece of standard output, which is then not part of the result. */
  readonly onOutput?: (text: string) => void;
  /** Like `onOutput`, for binary data. The next piece follows when the promise has resolved. */
  readonly onBytes?: (bytes: Uint8Array) => void | Promise<void>;
}

export interface CommandResult {
  /** Exit code; 128 + signal number when it was killed. */
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Programs that end by themselves or at their deadline. Each has its own process group. */
export interface ProcessRunner {
  /**
   * Resolves with the result whatever the exit code.
   * @throws AppError with OS_PROGRAM_MISSING when there is no such program.
   * @throws AppError with OS_TIMED_OUT when it was killed at the deadline.
   * @throws AppError with OS_DESCRIPTOR_STALE when a descriptor is closed or refers to another file: nothing was started.
   */
  run(command: Command): Promise<CommandResult>;
  /** Kills all remaining programs of the family, including those of a previous process. */
  killFamily(family: string): Promise<void>;
}
