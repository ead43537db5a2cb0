// SPDX-License-Identifier: Apache-2.0
// Which loop devices are over a file, in whatever mount namespace they are used?
import { AppError } from "@patchbay/core/errors";
import type { ProcessRunner } from "@patchbay/core/ports";

/** Deadline of losetup, milliseconds. */
const TIMEOUT_MS = 60_000;

/** One block device whose bytes are those of a file. */
export interface LoopDevice {
  readonly name: string;
  /** Whether it stays until it is taken away, with users or without. Source: losetup(8) AUTOCLEAR. */
  readonly isLasting: boolean;
}

/**
 * Lists the loop devices over the file, which is there, by its inode. Source: losetup(8) --associated.
 * @throws AppError with OS_PROGRAM_FAILED, OS_PROGRAM_MISSING, OS_TIMED_OUT
 */
export async function listLoopDevices(
  runner: ProcessRunner,
  file: string,
): Promise<readonly LoopDevice[]> {
  const program = "losetup";
  const list = ["--list", "--noheadings", "--raw", "--output", "NAME,AUTOCLEAR"];
  const argv = [program, ...list, "--associated", file] as const;
  const { exitCode, stdout, stderr } = await runner.run({ argv, timeoutMs: TIMEOUT_MS });
  if (exitCode !== 0) {
    throw new AppError("OS_PROGRAM_FAILED", { program, exitCode, stderr: stderr.trim() });
  }
  const lines = stdout.split("\n").filter((line) => line !== "");
  return lines.map((line) => {
    const [name = "", autoclear] = line.split(" ");
    return { name, isLasting: autoclear === "0" };
  });
}
