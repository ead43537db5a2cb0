// SPDX-License-Identifier: Apache-2.0
// How does a program run in place of this one, in its terminal?
import { spawn } from "node:child_process";
import { constants } from "node:os";
import { AppError } from "@patchbay/core/errors";
import { errnoOf, toFileError } from "../files/file-errors.ts";
import { sealDescriptors } from "./descriptors.ts";

/** Source: shell convention. */
const SIGNAL_BASE = 128;

/**
 * Runs it with this process's terminal, environment and group, so that both get what is typed to end them; its exit code,
 * 128 + signal number when it was killed.
 * @throws AppError with OS_PROGRAM_MISSING, OS_FILE_FAILED
 */
export async function runInForeground([file, ...args]: readonly [
  string,
  ...string[],
]): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  sealDescriptors();
  const child = spawn(file, args, { stdio: "inherit" });
  child.once("error", (error) => {
    const isMissing = errnoOf(error) === "ENOENT";
    const missing = new AppError("OS_PROGRAM_MISSING", { program: file }, { cause: error });
    reject(isMissing ? missing : toFileError(error, "exec", file));
  });
  child.once("exit", (code, signal) => {
    resolve(code ?? SIGNAL_BASE + constants.signals[signal ?? "SIGKILL"]);
  });
  return promise;
}
