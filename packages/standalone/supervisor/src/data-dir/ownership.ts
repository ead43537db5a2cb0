// SPDX-License-Identifier: Apache-2.0
// Checks and marks the data directory. Only a marked directory may be deleted by `--purge`.
import { relative, sep, basename, join } from "node:path";
import type { JsonObject } from "@patchbay/api/json";
import { AppError, checkFormat, FIRST_FORMAT } from "@patchbay/base";
import type { Files } from "@patchbay/core/interfaces";
import { readFields, readText } from "./json.ts";
import type { Paths } from "./paths.ts";
import { isMountPoint, mountsBelow } from "@patchbay/containerd";

export const KIND = "PatchbayStandalone";
/** Format of the data directory, except the files that have one themselves: the store, and the agents' directories. */
export const DATA_FORMAT = 1;
/** Directory in the root of every ext4 file system, and thus in a data directory that is an ext4 mount point. Source: mke2fs(8). */
const LOST_AND_FOUND = "lost+found";

export function isMarked(fields: JsonObject | undefined): boolean {
  return readText(fields, "kind") === KIND;
}

export function checkDataFormat(settings: JsonObject | undefined, path: string): void {
  checkFormat(path, settings?.["format"] ?? FIRST_FORMAT, DATA_FORMAT);
}

function listOwnNames({ dataDir, ...paths }: Paths): readonly string[] {
  return Object.values(paths).map((path) => relative(dataDir, path).split(sep)[0] ?? "");
}

/** Rejects an unmarked directory with files that do not belong to a data directory. @throws AppError with STANDALONE_NOT_OURS */
export async function rejectForeignFiles(files: Files, paths: Paths): Promise<void> {
  const { dataDir, settings } = paths;
  const ownNames = [LOST_AND_FOUND, ...listOwnNames(paths)];
  const isOwnName = (name: string): boolean =>
    ownNames.some((ownName) => name === ownName || name.startsWith(`${ownName}.`)); // Temporary files have these names with a suffix.
  const foreignName = (await files.list(dataDir)).find((name) => !isOwnName(name));
  // If a concurrently starting Patchbay created the listed file, the mark exists by now, because Patchbay writes the mark first.
  if (foreignName === undefined || isMarked(await readFields(files, settings))) return;
  const reason = `it has no standalone.json of Patchbay, and contains ${foreignName}`;
  throw new AppError("STANDALONE_NOT_OURS", { dataDir, reason });
}

/** Marks the directory as Patchbay's data directory. The caller must have acquired the machine's lock. */
export async function markDirectory(files: Files, { settings }: Paths): Promise<void> {
  if (isMarked(await readFields(files, settings))) return;
  await files.writeAtomic(
    settings,
    `${JSON.stringify({ kind: KIND, format: DATA_FORMAT }, undefined, 2)}\n`,
  );
}

interface PurgeDeps {
  readonly files: Files;
  readonly paths: Paths;
  readonly print: (line: string) => void;
}

/** @throws AppError with STANDALONE_NOT_OURS */
export async function rejectUnmarked({ files, paths }: Omit<PurgeDeps, "print">): Promise<void> {
  if (isMarked(await readFields(files, paths.settings))) return;
  const reason = "it has no standalone.json of Patchbay";
  throw new AppError("STANDALONE_NOT_OURS", { dataDir: paths.dataDir, reason });
}

/**
 * Deletes the directory, or empties it if it is a mount point. Deletes the settings file last, so that users can repeat a failed purge.
 * @throws AppError with STANDALONE_NOT_OURS when something is mounted below the directory
 */
export async function purge({ files, paths, print }: PurgeDeps): Promise<void> {
  const { dataDir, settings } = paths;
  const mountinfo = (await files.readText("/proc/self/mountinfo")) ?? "";
  const [mountPoint] = mountsBelow(mountinfo, dataDir);
  if (mountPoint !== undefined) {
    throw new AppError("STANDALONE_NOT_OURS", {
      dataDir,
      reason: `${mountPoint} is mounted in it`,
    });
  }
  const preservedNames = [LOST_AND_FOUND, basename(settings)];
  for (const name of await files.list(dataDir)) {
    if (!preservedNames.includes(name)) await files.remove(join(dataDir, name));
  }
  await files.remove(settings);
  if (isMountPoint(mountinfo, dataDir)) {
    print(`${dataDir} is empty; it is a mount point and is not deleted`);
    return;
  }
  await files.remove(dataDir);
  print(`${dataDir} is deleted`);
}
