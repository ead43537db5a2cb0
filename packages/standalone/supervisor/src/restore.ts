// SPDX-License-Identifier: Apache-2.0
import { restoreStore } from "@patchbay/apiserver";
import { AppError } from "@patchbay/base";
import { createFiles } from "@patchbay/os";
import { readFields } from "./data-dir/json.ts";
import { checkDataFormat } from "./data-dir/ownership.ts";
import { buildPaths } from "./data-dir/paths.ts";

export interface RestoreOptions {
  readonly dataDir: string;
  /** Path of a backup file, which was downloaded from `/backup` of the API server. */
  readonly file: string;
}

export interface Restored {
  readonly objects: number;
  readonly revision: number;
}

const PRIVATE_MODE = 0o700;

export async function restore({ dataDir, file }: RestoreOptions): Promise<Restored> {
  const files = createFiles();
  const text = await files.readText(file);
  if (text === undefined) {
    throw new AppError("STORE_BACKUP_INVALID", { path: file, reason: "there is no such file" });
  }
  const paths = buildPaths(dataDir);
  checkDataFormat(await readFields(files, paths.settings), paths);
  await files.ensureDirectory(paths.dataDir);
  await files.ensureDirectory(paths.storeDir, PRIVATE_MODE);
  return restoreStore(paths.store, { path: file, text });
}
