// SPDX-License-Identifier: Apache-2.0
// Runs one command line and returns its exit code. Must not import large modules, because they would slow the start of every command.
import { CommanderError } from "commander";
import { safeOutput } from "./print/safe.ts";
import { ProgramEnded } from "./command.ts";
import { createProgram, type ProcessContext } from "./program.ts";

const USAGE = 2;
/** Exit code after Ctrl-C. Source: bash(1), EXIT STATUS: 128 + SIGINT. */
const INTERRUPTED = 130;

/** Runs the command, and prints the error if it fails. Returns the exit code. Escapes all output for the terminal. */
export async function runCall(
  processContext: ProcessContext,
  args: readonly string[],
): Promise<number> {
  const safeContext = {
    ...processContext,
    out: safeOutput(processContext.out),
    err: safeOutput(processContext.err),
  };
  try {
    await createProgram(safeContext).parseAsync(args, { from: "user" });
    return 0;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : USAGE;
    if (error instanceof ProgramEnded) return error.exitCode;
    const { exitCodeOf, printError } = await import("./print/error.ts");
    safeContext.err.write(printError(error));
    return safeContext.signal.aborted ? INTERRUPTED : exitCodeOf(error);
  }
}
