// SPDX-License-Identifier: Apache-2.0
// A program that reads what an image is to be made of: its failure is the source's.
import { AppError } from "@patchbay/core";
import type { ProcessRunner } from "@patchbay/core/ports";
import { sayFault } from "./source-fault.ts";

/** An image may be gigabytes on a slow disk; milliseconds. */
const TIMEOUT_MS = 3_600_000;

/**
 * Its standard output; `source` as the user named it.
 * @throws AppError with IMAGE_SOURCE_INVALID, its words and what to do, OS_PROGRAM_MISSING, OS_TIMED_OUT
 */
export async function runOnSource(
  { runner }: { readonly runner: ProcessRunner },
  source: string,
  argv: readonly [string, ...string[]],
): Promise<string> {
  const { exitCode, stdout, stderr } = await runner.run({ argv, timeoutMs: TIMEOUT_MS });
  if (exitCode === 0) return stdout;
  throw new AppError("IMAGE_SOURCE_INVALID", { source, reason: sayFault(stderr) });
}
