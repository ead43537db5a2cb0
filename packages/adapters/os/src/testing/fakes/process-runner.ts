// SPDX-License-Identifier: Apache-2.0
import { AppError, type Clock } from "@patchbay/base";

import type { Command, CommandResult, ProcessRunner } from "@patchbay/core/interfaces";
import { createFakeClock } from "./clock.ts";

/** Runs a command. Missing members of the result are 0 or empty. */
export type FakeProgram = (
  command: Command,
) => Partial<CommandResult> | Promise<Partial<CommandResult>>;

/** {@link ProcessRunner} that runs functions of a test and records the commands. */
export interface FakeProcessRunner extends ProcessRunner {
  /** Started commands, in order. */
  readonly commands: readonly Command[];
  /** Families that were ended, in order. */
  readonly endedFamilies: readonly string[];
}

/** Rejects at the command's deadline, or when the command is aborted. */
async function untilKilled({ argv, timeoutMs, signal }: Command, clock: Clock, over: AbortSignal) {
  const ends = signal === undefined ? over : AbortSignal.any([over, signal]);
  await clock.sleep(timeoutMs, ends);
  throw new AppError("OS_TIMED_OUT", { program: argv[0], timeoutMs });
}

/** Creates a runner for programs by the first word of the command. `clock` determines deadlines. */
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
      const partial = await Promise.race([
        program(command),
        untilKilled(command, clock, over.signal),
      ]);
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
  const killProcessFamily = (family: string): Promise<void> => {
    endedFamilies.push(family);
    return Promise.resolve();
  };
  return { run, killProcessFamily, commands, endedFamilies };
}
