// SPDX-License-Identifier: Apache-2.0
// Deletes the data directory of a machine that is down.
import { basename, join } from "node:path";
import { isMountPoint, mountsBelow } from "@patchbay/containerd";
import { AppError } from "@patchbay/core";
import type { Files } from "@patchbay/core/ports";
import { readFields } from "./json.ts";
import { isOurs, OF_FILE_SYSTEM } from "./ours.ts";
import type { Paths } from "./paths.ts";

interface PurgeDeps {
  readonly files: Files;
  readonly paths: Paths;
  /** Gets one line for a person. */
  readonly print: (line: string) => void;
}

/**
 * Refuses a directory that is not marked as a machine's.
 * @throws AppError with STANDALONE_NOT_OURS
 */
export async function refuseForeign({ files, paths }: Omit<PurgeDeps, "print">): Promise<void> {
  if (isOurs(await readFields(files, paths.settings))) return;
  const reason = "it has no standalone.json of Patchbay";
  throw new AppError("STANDALONE_NOT_OURS", { dataDir: paths.dataDir, reason });
}

/**
 * Deletes the data directory; of a mount point only its content, because the mount belongs to the administrator. The file
 * that marks the directory goes last, so that an interrupted purge can be repeated.
 * @throws AppError with STANDALONE_NOT_OURS when something is mounted in it
 */
export async function purge({ files, paths, print }: PurgeDeps): Promise<void> {
  const { dataDir, settings } = paths;
  const mountinfo = (await files.readText("/proc/self/mountinfo")) ?? "";
  const [mounted] = mountsBelow(mountinfo, dataDir);
  if (mounted !== undefined) {
    throw new AppError("STANDALONE_NOT_OURS", { dataDir, reason: `${mounted} is mounted in it` });
  }
  const kept = [OF_FILE_SYSTEM, basename(settings)];
  for (const name of await files.list(dataDir)) {
    if (!kept.includes(name)) await files.remove(join(dataDir, name));
  }
  await files.remove(settings);
  if (isMountPoint(mountinfo, dataDir)) {
    print(`${dataDir} is empty; it is a mount point, and stays`);
    return;
  }
  await files.remove(dataDir);
  print(`${dataDir} is deleted`);
}
