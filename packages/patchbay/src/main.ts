// SPDX-License-Identifier: Apache-2.0
// The process: streams, signals, exit code. Loads nothing heavy.
import { CommanderError } from "commander";
import { readEnvironment, readVersion } from "./config.ts";
import { safeOutput } from "./print/safe.ts";
import { ProgramEnded } from "./program-ended.ts";
import { createProgram, type Surroundings } from "./program.ts";

/** Exit code of a call that was wrong. */
const USAGE = 2;
/** Exit code of a program that Ctrl-C ended, as shells say it. Source: bash(1), EXIT STATUS: 128 + SIGINT. */
const INTERRUPTED = 130;

function surroundings(): Surroundings {
  const interrupted = new AbortController();
  for (const name of ["SIGINT", "SIGTERM"] as const) {
    process.once(name, () => {
      interrupted.abort(new Error(`interrupted by ${name}`));
    });
  }
  return {
    out: safeOutput(process.stdout),
    err: safeOutput(process.stderr),
    environment: readEnvironment(),
    version: readVersion(),
    signal: interrupted.signal,
  };
}

async function run(): Promise<number> {
  const around = surroundings();
  try {
    await createProgram(around).parseAsync(process.argv);
    return 0;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : USAGE;
    if (error instanceof ProgramEnded) return error.exitCode;
    const { exitCodeOf, printError } = await import("./print/error.ts");
    around.err.write(printError(error));
    return around.signal.aborted ? INTERRUPTED : exitCodeOf(error);
  }
}

process.stdout.on("error", () => undefined); // who read the output may be gone: `patchbay ... | head`
process.exitCode = await run();
