// SPDX-License-Identifier: Apache-2.0
import { AppError } from "@patchbay/base";
import type { ProcessRunner } from "@patchbay/core/interfaces";

/** Pattern of the lines that tar prints after every error. Source: GNU tar, src/tar.c and lib/paxerror.c. */
const FINAL_LINE_PATTERN =
  /^tar: (Error is not recoverable: exiting now|Exiting with failure status due to previous errors)$/;
/** Next steps for users, by error text. Source: strerror(3), GNU tar. */
const NEXT_STEPS: readonly (readonly [RegExp, string])[] = [
  [
    /No space left on device|Disk quota exceeded|Wrote only/,
    "the file system is full: free space on it, or remove unused images with: patchbay image remove NAME",
  ],
  [
    /Permission denied|Operation not permitted/,
    "it cannot be read: make it readable for root, or copy it to a readable place",
  ],
  [
    /changed as we read it|File shrank|File removed before we read it/,
    "it changed while it was read: stop the program that writes to it, and add the image again",
  ],
];

export function describeFailure(stderr: string): string {
  const lines = stderr.split("\n").map((line) => line.trim());
  const [firstLine = "no reason was given", ...otherLines] = lines.filter(
    (line) => line !== "" && !FINAL_LINE_PATTERN.test(line),
  );
  const nextStep = NEXT_STEPS.find(([pattern]) => pattern.test(stderr))?.[1];
  return [
    otherLines.length === 0 ? firstLine : `${firstLine}, and ${String(otherLines.length)} more`,
    ...(nextStep === undefined ? [] : [nextStep]),
  ].join("; ");
}

/** Time limit of a program, which may process gigabytes on a slow disk. */
const TIMEOUT_MS = 3_600_000;

/** Runs a program on `source`, which errors name. @throws AppError with IMAGE_SOURCE_INVALID, OS_PROGRAM_MISSING, OS_TIMED_OUT */
export async function runSourceProgram(
  { runner }: { readonly runner: ProcessRunner },
  source: string,
  argv: readonly [string, ...string[]],
): Promise<string> {
  const { exitCode, stdout, stderr } = await runner.run({ argv, timeoutMs: TIMEOUT_MS });
  if (exitCode === 0) return stdout;
  throw new AppError("IMAGE_SOURCE_INVALID", { source, reason: describeFailure(stderr) });
}
