// SPDX-License-Identifier: Apache-2.0
// Runs one call and returns its exit code. It imports nothing large.
import { CommanderError } from "commander";
import { safeOutput } from "./print/safe.ts";
import { ProgramEnded } from "./program-ended.ts";
import { createProgram, type Surroundings } from "./program.ts";

/** Exit code of wrong usage. */
const USAGE = 2;
/** Exit code after Ctrl-C. Source: bash(1), EXIT STATUS: 128 + SIGINT. */
const INTERRUPTED = 130;

/** Runs the command and prints its error; all output is escaped for the terminal. */
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
