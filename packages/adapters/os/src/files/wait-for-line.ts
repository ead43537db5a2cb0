// SPDX-License-Identifier: Apache-2.0
// When does another process write the line that is waited for, for example that it is ready?
import { watch } from "node:fs";
import { readFile } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { messageOf } from "@patchbay/core/errors";
import { errnoOf, toFileError } from "./file-errors.ts";

async function findLine(file: string, prefix: string): Promise<string | undefined> {
  try {
    const text = await readFile(file, "utf8");
    // Only whole lines.
    return text
      .split("\n")
      .slice(0, -1)
      .find((line) => line.startsWith(prefix));
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return undefined;
    throw toFileError(error, "read", file);
  }
}

/**
 * The first line of a file that begins with `prefix`, as soon as it is there; the file may come later, its directory
 * must be there. Rejects with the signal's reason when it is aborted first.
 */
export async function waitForLine(
  file: string,
  prefix: string,
  signal: AbortSignal,
): Promise<string> {
  signal.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const look = (): void => {
    findLine(file, prefix).then((line) => {
      if (line !== undefined) resolve(line);
    }, reject);
  };
  const watcher = watch(dirname(file), (_event, name) => {
    if (name === basename(file)) look();
  });
  const onAbort = (): void => {
    reject(signal.reason instanceof Error ? signal.reason : new Error(messageOf(signal.reason)));
  };
  watcher.on("error", reject);
  signal.addEventListener("abort", onAbort);
  look();
  try {
    return await promise;
  } finally {
    signal.removeEventListener("abort", onAbort);
    watcher.close();
  }
}
