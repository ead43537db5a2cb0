// SPDX-License-Identifier: Apache-2.0
// Long-lived children of ours: one module in a process of its own, without the parent's privileges.

/** A user of the machine. */
export interface ProcessIdentity {
  readonly uid: number;
  readonly gid: number;
}

/** What runs in the child. */
export interface ChildProgram {
  /** `file:` URL of a module that exports {@link ChildMain} as `main`. It is loaded before privileges are dropped. */
  readonly module: string;
  /** Whom it runs as, without any capability; absent: as the parent. */
  readonly identity?: ProcessIdentity;
  /** The whole environment. */
  readonly env: Readonly<Record<string, string>>;
  /** How long loading and dropping may take. */
  readonly readyTimeoutMs: number;
}

/** A descriptor that came from the other end. */
export interface TakenDescriptor {
  readonly fd: number;
  close(): void;
}

/** One end of the connection between parent and child. Messages are JSON values, in order, at most 8 MiB each. */
export interface ChildChannel {
  /** @throws AppError with OS_MESSAGE_TOO_LONG; nothing is sent then. */
  send(message: unknown): void;
  /** One listener; messages that came before it are kept for it. */
  onMessage(listener: (message: unknown) => void): void;
  /**
   * Sends a copy of an open descriptor; the other end takes it by its token.
   * @throws AppError with OS_FILE_FAILED when the other end does not read.
   */
  sendDescriptor(fd: number, token: number): void;
  /**
   * The descriptor that was sent with `token`; the caller owns it.
   * @throws AppError with OS_FILE_FAILED when there is none.
   */
  takeDescriptor(token: number): TakenDescriptor;
}

/** The child's code: called once, when privileges are gone. */
export type ChildMain = (channel: ChildChannel) => void;

/** A running child, seen from its parent. */
export interface ChildProcessHandle extends ChildChannel {
  readonly pid: number;
  /** Resolves with the reason when it has ended. */
  readonly ended: Promise<string>;
  /** Ends it at once (SIGKILL); a child has nothing to save. */
  kill(): void;
}

/** Starts children. They end when the parent ends. */
export interface ChildStarter {
  /**
   * Resolves when the child is ready.
   * @throws AppError with OS_PROGRAM_FAILED, OS_TIMED_OUT
   */
  start(program: ChildProgram): Promise<ChildProcessHandle>;
}
