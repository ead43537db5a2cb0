// SPDX-License-Identifier: Apache-2.0
// Long-lived child processes, each of which runs one module, usually without the parent's privileges.

export interface ProcessIdentity {
  readonly uid: number;
  readonly gid: number;
}

export interface ChildProgram {
  /** `file:` URL of a module that exports {@link ChildMain} as `main`. The child loads the module before it drops privileges. */
  readonly module: string;
  /** User and group to which the child drops its privileges. Unset: the child runs as the parent's user. */
  readonly identity?: ProcessIdentity;
  readonly env: Readonly<Record<string, string>>;
  readonly readyTimeoutMs: number;
}

export interface ClaimedDescriptor {
  readonly fd: number;
  close(): void;
}

/** Connection between parent and child. Messages are JSON values, delivered in order, at most 8 MiB each. */
export interface ChildChannel {
  /** @throws AppError with OS_MESSAGE_TOO_LONG, without sending the message */
  send(message: unknown): void;
  /** Sets the only listener, which first receives the messages that have already arrived. */
  onMessage(listener: (message: unknown) => void): void;
  /** Sends a copy of a descriptor, claimed with `token`. @throws AppError with OS_FILE_FAILED if the receiver does not read */
  sendDescriptor(fd: number, token: number): void;
  /**
   * Returns the descriptor that was sent with `token`. The caller must close the descriptor.
   * @throws AppError with OS_FILE_FAILED when no descriptor was sent with `token`
   */
  claimDescriptor(token: number): ClaimedDescriptor;
}

export type ChildMain = (channel: ChildChannel) => void;

export interface ChildProcessHandle extends ChildChannel {
  readonly pid: number;
  readonly ended: Promise<string>;
  /** Kills the child with SIGKILL, because children have no state to save. */
  kill(): void;
}

export interface ChildStarter {
  /** Starts a child process and resolves when the child is ready. @throws AppError with OS_PROGRAM_FAILED, OS_TIMED_OUT */
  start(program: ChildProgram): Promise<ChildProcessHandle>;
}
