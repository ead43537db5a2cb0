// SPDX-License-Identifier: Apache-2.0
// A program that runs: its pipes, its group and its end.
import { closeSync } from "node:fs";
import { Socket } from "node:net";
import { osNative } from "../native.ts";
import { sealDescriptors } from "./descriptors.ts";
import { watchProcessEnd } from "./process-end.ts";

/** How a program ended. */
export interface ProgramEnd {
  /** Exit code; 128 + signal number when it was killed. */
  readonly exitCode: number;
  /** Whether a signal ended it, whoever sent it. */
  readonly isCut: boolean;
  /** Whether it has left others in its group. */
  readonly hasLeft: boolean;
}

/** A program that is being started. */
export interface Program {
  /** Absent: it reads nothing. */
  readonly input?: Socket;
  readonly output: Socket;
  readonly errors: Socket;
  /** Resolves with its pid, which is its group's and its session's too; rejects with the error of exec(2), with `code`. */
  readonly started: Promise<number>;
  /** Resolves once it has ended; rejects as `started` does. */
  readonly ended: Promise<ProgramEnd>;
}

/** What is started, and with what. */
export interface ProgramStart {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** What it gets as 3, 4, ...; may be closed at once. */
  readonly fds: readonly number[];
  readonly hasInput: boolean;
  /** Whether the kernel kills it when this process dies, and no sooner. */
  readonly diesWithParent: boolean;
}

/** Source: shell convention. */
const SIGNAL_BASE = 128;

async function endOf(pid: number, pidfd: number): Promise<ProgramEnd> {
  const { ended } = watchProcessEnd(pidfd);
  closeSync(pidfd);
  await ended;
  const { code, signal, hasLeft } = osNative().reapProgram(pid);
  return signal === 0
    ? { exitCode: code, isCut: false, hasLeft }
    : { exitCode: SIGNAL_BASE + signal, isCut: true, hasLeft };
}

/**
 * Starts a program in a session and a group of its own; the caller waits for neither a fork nor the program.
 * @throws errors with `code` as those of node:fs
 */
export function startProgram({ argv, env, fds, hasInput, diesWithParent }: ProgramStart): Program {
  sealDescriptors();
  const pairs = Object.entries(env).map(([key, value]) => `${key}=${value}`);
  const program = osNative().startProgram(argv, pairs, fds, hasInput, diesWithParent);
  const readEnd = (fd: number): Socket => new Socket({ fd, readable: true, writable: false });
  const { input } = program;
  return {
    ...(input >= 0 && { input: new Socket({ fd: input, readable: false, writable: true }) }),
    output: readEnd(program.output),
    errors: readEnd(program.errors),
    started: program.started.then(({ pid }) => pid),
    ended: program.started.then(({ pid, pidfd }) => endOf(pid, pidfd)),
  };
}
