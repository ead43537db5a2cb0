// SPDX-License-Identifier: Apache-2.0
// How does a program come to a place where others may be running it, or begin to at any moment?
import { chmod, copyFile, rename, rm } from "node:fs/promises";
import { toFileError } from "./file-errors.ts";

const PROGRAM_MODE = 0o755;

/**
 * Copies the program, whole at any moment, in the place of what is there. Equivalent to: `install -m 0755 SOURCE TARGET`
 * @throws AppError with OS_FILE_FAILED
 */
export async function installProgram(source: string, target: string): Promise<void> {
  const made = `${target}.new`;
  try {
    await copyFile(source, made);
    await chmod(made, PROGRAM_MODE); // whatever the umask is
    await rename(made, target);
  } catch (error) {
    await rm(made, { force: true }).catch(() => undefined); // the first error is told
    throw toFileError(error, "install", target);
  }
}
