// SPDX-License-Identifier: Apache-2.0
// Runs programs of the machine.

/** An open descriptor of this process and what it names: after a close, the number may be another file's. */
export interface InheritedFd {
  readonly fd: number;
  /** Inode, decimal text. */
  readonly inode: string;
}

/** One program to run. */
export interface Command {
  /** Program and arguments; never goes through a shell. */
  readonly argv: readonly [string, ...string[]];
  /** Text for standard input; empty when absent. */
  readonly stdin?: string;
  /** The whole environment; absent: PATH only. */
  readonly env?: Readonly<Record<string, string>>;
  /** What the program inherits as 3, 4, ... in this order; looked at in the same tick as the program is started. */
  readonly inheritFds?: readonly InheritedFd[];
  /**
   * Who runs it, in words that a successor of this process says too. The program is killed when this process dies, and
   * everything that it started, in whatever group or session, is killed when it ends: before its result is there, but for
   * what has left its group and its pipes and was started by a program that ended well, which lives some seconds longer at
   * most; and by {@link ProcessRunner.endFamily}.
   */
  readonly family?: string;
  /** After this the whole process group gets SIGTERM, one second later SIGKILL. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
  /** Called for each piece of standard output as it comes; what it is given is not kept for the result. */
  readonly onOutput?: (text: string) => void;
  /** The same of output that is no text; the next piece comes when what this one has promised is so. */
  readonly onBytes?: (bytes: Uint8Array) => void | Promise<void>;
}

/** How a program ended. */
export interface CommandResult {
  /** Exit code; 128 + signal number when it was killed. */
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Programs that end, by themselves or at their deadline; each has a process group of its own. */
export interface ProcessRunner {
  /**
   * Resolves with the result whatever the exit code.
   * @throws AppError with OS_PROGRAM_MISSING when there is no such program.
   * @throws AppError with OS_TIMED_OUT when it was killed at the deadline.
   * @throws AppError with OS_DESCRIPTOR_STALE when a descriptor is closed or names something else: nothing was started.
   */
  run(command: Command): Promise<CommandResult>;
  /** Kills what programs of that family have left running, also those of a process that died before this one. */
  endFamily(family: string): Promise<void>;
}
