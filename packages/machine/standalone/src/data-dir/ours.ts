// SPDX-License-Identifier: Apache-2.0
// Which directory is a machine's? One that says so; and one may become it that holds nothing of anybody else's.
import { relative, sep } from "node:path";
import type { JsonObject } from "@patchbay/api/json";
import { AppError } from "@patchbay/core/errors";
import type { Files } from "@patchbay/core/ports";
import { readFields, textOf } from "./json.ts";
import type { Paths } from "./paths.ts";

/** Kind of the settings file, by which a directory is known as ours. */
export const KIND = "PatchbayStandalone";
/** What a file system of its own has at its top. Source: mke2fs(8). */
export const OF_FILE_SYSTEM = "lost+found";

/** Whether the settings file is one of ours. */
export function isOurs(fields: JsonObject | undefined): boolean {
  return textOf(fields, "kind") === KIND;
}

/** What is right below the data directory, by name. */
function namesIn({ dataDir, ...paths }: Paths): readonly string[] {
  return Object.values(paths).map((path) => relative(dataDir, path).split(sep)[0] ?? "");
}

/**
 * Refuses a directory that would be purged with somebody else's files in it. What is in our places is ours, marked or not:
 * a machine is marked by whoever holds it, and what died before that has left some.
 * @throws AppError with STANDALONE_NOT_OURS
 */
export async function refuseOthers(files: Files, paths: Paths): Promise<void> {
  const { dataDir, settings } = paths;
  const own = [OF_FILE_SYSTEM, ...namesIn(paths)];
  const isOwn = (name: string): boolean =>
    own.some((one) => name === one || name.startsWith(`${one}.`)); // a file that was not finished has an ending
  const other = (await files.list(dataDir)).find((name) => !isOwn(name));
  // Looked at last: where others have come since, the mark was there before them.
  if (other === undefined || isOurs(await readFields(files, settings))) return;
  const reason = `it has no standalone.json of Patchbay, and holds ${other}`;
  throw new AppError("STANDALONE_NOT_OURS", { dataDir, reason });
}

/** Marks a directory that nobody has marked; for whoever holds the machine, as nobody else writes its settings. */
export async function markOurs(files: Files, { settings }: Paths): Promise<void> {
  if (isOurs(await readFields(files, settings))) return;
  await files.writeAtomic(settings, `${JSON.stringify({ kind: KIND }, undefined, 2)}\n`);
}
