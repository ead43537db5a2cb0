// SPDX-License-Identifier: Apache-2.0
import { basename, join } from "node:path";
import { restoreStore } from "@patchbay/apiserver";
import { AppError, isSupportedFormat } from "@patchbay/base";
import type { Files } from "@patchbay/core/interfaces";
import {
  createClock,
  createFiles,
  createProcessRunner,
  openGrowingFile,
  renameFile,
} from "@patchbay/os";
import { MACHINE_FORMAT, MANIFEST, OBJECTS } from "./backup.ts";
import { isRoot } from "./config.ts";
import { readFields, readText } from "./data-dir/json.ts";
import { checkDataFormat } from "./data-dir/ownership.ts";
import { buildPaths, type Paths } from "./data-dir/paths.ts";
import { lockMachine } from "./supervisor/hold-machine.ts";

export interface RestoreOptions {
  readonly dataDir: string;
  /** Path of an archive of `patchbay backup`, or of a file that was downloaded from `/backup` of the API server. */
  readonly file: string;
}

export interface Restored {
  readonly objects: number;
  readonly revision: number;
  readonly volumes: readonly string[];
  /** Names of images that the machine had. Unset if the backup does not contain their names. */
  readonly images?: readonly string[];
}

const PRIVATE_MODE = 0o700;
const TAR_TIMEOUT_MS = 6 * 3_600_000;
/** Position of the text `ustar` in an archive. Source: pax(1). */
const MAGIC = { at: 257, text: "ustar" };

async function isArchive(path: string): Promise<boolean> {
  const file = await openGrowingFile(path);
  if (file === undefined) return false;
  try {
    const { length } = MAGIC.text;
    return (await file.read(MAGIC.at, length)).toString("latin1") === MAGIC.text;
  } finally {
    await file.close();
  }
}

async function readBackup(files: Files, file: string): Promise<string> {
  const text = await files.readText(file);
  if (text !== undefined) return text;
  throw new AppError("STORE_BACKUP_INVALID", { path: file, reason: "there is no such file" });
}

function listTexts(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((one) => typeof one === "string") : [];
}

interface Deps {
  readonly files: Files;
  readonly paths: Paths;
  readonly file: string;
}

async function extract(
  { file }: Deps,
  directory: string,
  members: readonly string[],
): Promise<void> {
  const options = ["--extract", "--preserve-permissions", `--file=${file}`];
  const argv = ["tar", ...options, `--directory=${directory}`, ...members] as const;
  const { exitCode, stderr } = await createProcessRunner().run({ argv, timeoutMs: TAR_TIMEOUT_MS });
  if (exitCode === 0) return;
  throw new AppError("STORE_BACKUP_INVALID", { path: file, reason: stderr.trim() });
}

/** Restores the store last, so that the caller can repeat a restore that failed or lost power. */
async function restoreArchive(deps: Deps): Promise<Restored> {
  const { files, paths, file } = deps;
  const workDir = join(paths.run, "restore");
  const settings = join(workDir, basename(paths.settings));
  await files.ensureDirectory(workDir, PRIVATE_MODE);
  try {
    await extract(deps, workDir, [MANIFEST, OBJECTS, basename(paths.settings)]);
    const manifest = await readFields(files, join(workDir, MANIFEST));
    if (!isSupportedFormat(readText(manifest, "format"), file, MACHINE_FORMAT))
      throw new AppError("STORE_BACKUP_INVALID", { path: file, reason: "its format is unknown" });
    checkDataFormat(await readFields(files, settings), file);
    const volumes = listTexts(manifest?.["volumes"]);
    await extract(deps, paths.dataDir, ["pki", ...(volumes.length > 0 ? ["claims"] : [])]);
    await renameFile(settings, paths.settings);
    const sync = ["sync", "--file-system", paths.dataDir] as const;
    await createProcessRunner().run({ argv: sync, timeoutMs: TAR_TIMEOUT_MS });
    const text = await readBackup(files, join(workDir, OBJECTS));
    const stored = restoreStore(paths.store, { path: file, text });
    const images = manifest?.["images"];
    return { ...stored, volumes, ...(images !== undefined && { images: listTexts(images) }) };
  } finally {
    await files.remove(workDir);
  }
}

async function restoreMachine(deps: Deps): Promise<Restored> {
  const { files, paths } = deps;
  const { dataDir } = paths;
  if (!isRoot()) throw new AppError("STANDALONE_NOT_ROOT");
  if (await files.exists(paths.store)) {
    const reason = `it has objects already; restore into another directory, or delete this machine: patchbay --data-dir ${dataDir} down --purge`;
    throw new AppError("STANDALONE_RESTORE_REFUSED", { dataDir, reason });
  }
  const { lock } = await lockMachine({ files, paths, clock: createClock() });
  try {
    return await restoreArchive(deps);
  } finally {
    lock.release();
  }
}

export async function restore({ dataDir, file }: RestoreOptions): Promise<Restored> {
  const files = createFiles();
  const paths = buildPaths(dataDir);
  checkDataFormat(await readFields(files, paths.settings), dataDir);
  if (await isArchive(file)) return restoreMachine({ files, paths, file });
  const text = await readBackup(files, file);
  await files.ensureDirectory(paths.dataDir);
  await files.ensureDirectory(paths.storeDir, PRIVATE_MODE);
  return { ...restoreStore(paths.store, { path: file, text }), volumes: [], images: [] };
}
