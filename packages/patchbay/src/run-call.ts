// SPDX-License-Identifier: Apache-2.0
// One call: from its arguments to its exit code. Loads nothing heavy.
import { CommanderError } from "commander";
import { safeOutput } from "./print/safe.ts";
import { ProgramEnded } from "./program-ended.ts";
import { createProgram, type Surroundings } from "./program.ts";

/** Exit code of a call that was wrong. */
const USAGE = 2;
/** Exit code of a program that Ctrl-C ended, as shells say it. Source: bash(1), EXIT STATUS: 128 + SIGINT. */
const INTERRUPTED = 130;

/** Runs what the arguments say, and tells what went wrong; nothing that it prints is obeyed by a terminal. */
export async function runCall(outside: Surroundings, args: readonly string[]): Promise<number> {
  const around = { ...outside, out: safeOutput(outside.out), err: safeOutput(outside.err) };
  try {
    await createProgram(around).parseAsync(args, { from: "user" });
    return 0;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : USAGE;
    if (error instanceof ProgramEnded) return error.exitCode;
    const { exitCodeOf, printError } = await import("./print/error.ts");
    around.err.write(printError(error));
    return around.signal.aborted ? INTERRUPTED : exitCodeOf(error);
  }
}
