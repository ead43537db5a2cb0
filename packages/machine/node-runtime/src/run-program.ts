// SPDX-License-Identifier: Apache-2.0
// Runs a program that must succeed.
import { AppError } from "@patchbay/core";
import type { ProcessRunner } from "@patchbay/core/ports";

/** Programs of the machine that only change something small, milliseconds. */
const TIMEOUT_MS = 10_000;

/**
 * The standard output of a program.
 * @throws AppError with OS_PROGRAM_FAILED, OS_PROGRAM_MISSING, OS_TIMED_OUT
 */
export async function runProgram(
  runner: ProcessRunner,
  ...argv: readonly [string, ...string[]]
): Promise<string> {
  const { exitCode, stdout, stderr } = await runner.run({ argv, timeoutMs: TIMEOUT_MS });
  if (exitCode === 0) return stdout;
  const details = { program: argv.slice(0, 3).join(" "), exitCode, stderr: stderr.trim() };
  throw new AppError("OS_PROGRAM_FAILED", details);
}
