// SPDX-License-Identifier: Apache-2.0
// Which directory is a machine's? One that says so, from the first thing that was made in it.
import type { JsonObject } from "@patchbay/api/json";
import { AppError } from "@patchbay/core/errors";
import type { Files } from "@patchbay/ports";
import { readFields, textOf } from "./json.ts";
import type { Paths } from "./paths.ts";

/** Kind of the settings file, by which a directory is known as ours. */
export const KIND = "PatchbayStandalone";
const PUBLIC = 0o755;
/** What a file system of its own has at its top. Source: mke2fs(8). */
const OF_FILE_SYSTEM: readonly string[] = ["lost+found"];

/** Whether the settings file is one of ours. */
export function isOurs(fields: JsonObject | undefined): boolean {
  return textOf(fields, "kind") === KIND;
}

/**
 * Makes the data directory and marks it, before anything else is in it: what is ours may be purged.
 * @throws AppError with STANDALONE_NOT_OURS when it is there and holds what is somebody else's.
 */
export async function takeDirectory(files: Files, { dataDir, settings }: Paths): Promise<void> {
  if (isOurs(await readFields(files, settings))) return;
  const others = (await files.list(dataDir)).filter((name) => !OF_FILE_SYSTEM.includes(name));
  if (others.length > 0) {
    const reason = `it has no standalone.json of ours, and holds ${others[0] ?? ""}`;
    throw new AppError("STANDALONE_NOT_OURS", { dataDir, reason });
  }
  await files.ensureDirectory(dataDir, PUBLIC);
  await files.writeAtomic(settings, `${JSON.stringify({ kind: KIND }, undefined, 2)}\n`);
}
