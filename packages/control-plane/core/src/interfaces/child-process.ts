// SPDX-License-Identifier: Apache-2.0
// Long-lived child processes. Each runs one module without the parent's privileges.

export interface ProcessIdentity {
  readonly uid: number;
  readonly gid: number;
}

export interface ChildProgram {
  /** `file:` URL of a module that exports {@link ChildMain} as `main`. It is loaded before privileges are dropped. */
  readonly module: string;
  /** User and group of the child, which then has no capabilities. Unset: the parent's. */
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
  /** @throws AppError with OS_MESSAGE_TOO_LONG; nothing is sent then. */
  send(message: unknown): void;
  /** Sets the only listener. Messages that arrived earlier are buffered and delivered to it. */
  onMessage(listener: (message: unknown) => void): void;
  /**
   * Sends a copy of an open descriptor. The other process claims it with `token`.
   * @throws AppError with OS_FILE_FAILED when the other process does not read.
   */
  sendDescriptor(fd: number, token: number): void;
  /**
   * Returns the descriptor that was sent with `token`. The caller must close it.
   * @throws AppError with OS_FILE_FAILED when no descriptor was sent with `token`.
   */
  claimDescriptor(token: number): ClaimedDescriptor;
}

/** The child's entry point, called once after privileges were dropped. */
export type ChildMain = (channel: ChildChannel) => void;

export interface ChildProcessHandle extends ChildChannel {
  readonly pid: number;
  readonly ended: Promise<string>;
  /** Kills the child with SIGKILL. A child has no state to save. */
  kill(): void;
}

export interface ChildStarter {
  /** Resolves when the child is ready. @throws AppError with OS_PROGRAM_FAILED, OS_TIMED_OUT */
  start(program: ChildProgram): Promise<ChildProcessHandle>;
}
