// SPDX-License-Identifier: Apache-2.0
// Programs that a test has written.
import { AppError, type Clock } from "@patchbay/base";

import type { Command, CommandResult, ProcessRunner } from "@patchbay/core/interfaces";
import { createFakeClock } from "./clock.ts";

/** What a program does with its command; members that it leaves out are 0 and empty. */
export type FakeProgram = (
  command: Command,
) => Partial<CommandResult> | Promise<Partial<CommandResult>>;

/** {@link ProcessRunner} of those programs alone, and what was asked of it. */
export interface FakeProcessRunner extends ProcessRunner {
  /** What was started, in order. */
  readonly commands: readonly Command[];
  /** Families that were ended, in order. */
  readonly endedFamilies: readonly string[];
}

/** Rejects when the program is to be killed. */
async function killed({ argv, timeoutMs, signal }: Command, clock: Clock, over: AbortSignal) {
  const ends = signal === undefined ? over : AbortSignal.any([over, signal]);
  await clock.sleep(timeoutMs, ends);
  throw new AppError("OS_TIMED_OUT", { program: argv[0], timeoutMs });
}

/** A machine with those programs, by the first word of the command; deadlines are of `clock`. */
export function createFakeProcessRunner(
  programs: Readonly<Record<string, FakeProgram>>,
  clock: Clock = createFakeClock(),
): FakeProcessRunner {
  const commands: Command[] = [];
  const endedFamilies: string[] = [];
  const run = async (command: Command): Promise<CommandResult> => {
    command.signal?.throwIfAborted();
    const program = programs[command.argv[0]];
    if (program === undefined) {
      throw new AppError("OS_PROGRAM_MISSING", { program: command.argv[0] });
    }
    commands.push(command);
    const over = new AbortController();
    try {
      const partial = await Promise.race([program(command), killed(command, clock, over.signal)]);
      const result = { exitCode: 0, stdout: "", stderr: "", ...partial };
      const { onOutput, onBytes } = command;
      if (onOutput === undefined && onBytes === undefined) return result;
      onOutput?.(result.stdout);
      await onBytes?.(Buffer.from(result.stdout));
      return { ...result, stdout: "" };
    } finally {
      over.abort(new Error("the program has ended"));
    }
  };
  const killFamily = (family: string): Promise<void> => {
    endedFamilies.push(family);
    return Promise.resolve();
  };
  return { run, killFamily, commands, endedFamilies };
}
