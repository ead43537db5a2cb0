// SPDX-License-Identifier: Apache-2.0
// Rotates the logs of the machine's services. Each service appends to its file and never opens it again, so the content is moved.
import { join } from "node:path";
import type { Clock, Logger } from "@patchbay/base";
import type { Files } from "@patchbay/core/interfaces";
import { moveContent, readFileSize, renameFile } from "@patchbay/os";

interface LogBounds {
  readonly bytesMax: number;
  /** Maximum number of files of a log, including the current file. */
  readonly filesMax: number;
}

/** As for containers: 50 MiB for each service. */
const LOG_BOUNDS: LogBounds = { bytesMax: 10 * 1024 * 1024, filesMax: 5 };
const CHECK_INTERVAL_MS = 10_000;

interface LogRotationDeps {
  readonly files: Files;
  readonly clock: Clock;
  readonly log: Logger;
  readonly directory: string;
  readonly bounds?: LogBounds;
}

async function rotate(
  files: Files,
  path: string,
  { bytesMax, filesMax }: LogBounds,
): Promise<void> {
  const nameOf = (index: number): string => `${path}.${String(index)}`;
  // First, because it fails on a full disk, where the earlier files must remain.
  moveContent(path, nameOf(0), bytesMax);
  await files.remove(nameOf(filesMax - 1));
  for (let index = filesMax - 2; index >= 0; index -= 1) {
    if (await files.exists(nameOf(index))) await renameFile(nameOf(index), nameOf(index + 1));
  }
}

/** Rotates each log that is too large. `NAME.log.1` is the newest of the earlier files. */
export async function rotateLargeLogs(deps: LogRotationDeps): Promise<void> {
  const { files, log, directory, bounds = LOG_BOUNDS } = deps;
  const names = (await files.list(directory)).filter((name) => name.endsWith(".log"));
  for (const path of names.map((name) => join(directory, name))) {
    try {
      const size = (await readFileSize(path)) ?? 0;
      if (size > bounds.bytesMax) await rotate(files, path, bounds);
    } catch (error) {
      log.warn("log cannot be rotated", { path, err: error });
    }
  }
}

export async function rotateMachineLogs(deps: LogRotationDeps, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await rotateLargeLogs(deps).catch((error: unknown) => {
      deps.log.warn("logs cannot be listed", { path: deps.directory, err: error });
    });
    await deps.clock.sleep(CHECK_INTERVAL_MS, signal).catch(() => undefined);
  }
}
