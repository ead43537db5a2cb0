// SPDX-License-Identifier: Apache-2.0

/** An open descriptor, with the file's inode to detect a reused descriptor number. */
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
  /** Descriptors that the program inherits as 3, 4, ... in this order. */
  readonly inheritFds?: readonly InheritedFd[];
  /**
   * Group of programs, killed by {@link ProcessRunner.killProcessFamily} or when this process dies.
   * A program's exit also kills its descendants.
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
