// SPDX-License-Identifier: Apache-2.0
// Can layers be mounted over one another here? Tried, because the kernel and the directory's file system both have a say.
import { join } from "node:path";
import type { Files, ProcessRunner } from "@patchbay/core/ports";
import type { Snapshotter } from "./config/config-text.ts";

const TIMEOUT_MS = 10_000;

/** Mounts an overlay of empty directories below `directory`, which must be there, and takes it away again. */
export async function findSnapshotter(
  { files, runner }: { readonly files: Files; readonly runner: ProcessRunner },
  directory: string,
): Promise<Snapshotter> {
  const trial = join(directory, "overlay-trial");
  const [lower, upper, work, merged] = ["lower", "upper", "work", "merged"].map((name) =>
    join(trial, name),
  ) as [string, string, string, string]; // one for each name
  for (const path of [lower, upper, work, merged]) await files.ensureDirectory(path);
  const options = `lowerdir=${lower},upperdir=${upper},workdir=${work}`;
  try {
    const mount = ["mount", "-t", "overlay", "overlay", "-o", options, merged] as const;
    const { exitCode } = await runner.run({ argv: mount, timeoutMs: TIMEOUT_MS });
    if (exitCode !== 0) return "native";
    await runner.run({ argv: ["umount", merged], timeoutMs: TIMEOUT_MS });
    return "overlayfs";
  } finally {
    await files.remove(trial);
  }
}
