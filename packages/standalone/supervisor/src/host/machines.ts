// SPDX-License-Identifier: Apache-2.0
// Finds the other standalone machines of this host, also those that do not run.
import { basename, join } from "node:path";
import type { Files } from "@patchbay/core/interfaces";
import { readFields, readText } from "../data-dir/json.ts";
import { isMarked } from "../data-dir/ownership.ts";
import { buildPaths } from "../data-dir/paths.ts";
import { buildCgroupRoot } from "../runtime/own-containerd.ts";
import type { OtherMachine } from "../settings/problems.ts";
import { readSettings } from "../settings/settings.ts";
import { findSupervisor } from "../supervisor/state.ts";
import { findService } from "./service-unit.ts";

/** Directory with a file for each machine of the host, which contains the path of its data directory. */
export const MACHINES_DIR = "/var/lib/patchbay-machines";

function buildRecordPath(dataDir: string): string {
  return join(MACHINES_DIR, `${basename(buildCgroupRoot({ dataDir }))}.json`);
}

async function listDataDirs(files: Files): Promise<readonly string[]> {
  const records = await files.list(MACHINES_DIR);
  const dataDirs = await Promise.all(
    records.map(async (name) =>
      readText(await readFields(files, join(MACHINES_DIR, name)), "dataDir"),
    ),
  );
  return dataDirs.filter((dataDir) => dataDir !== "");
}

async function observeMachine(files: Files, dataDir: string): Promise<readonly OtherMachine[]> {
  const paths = buildPaths(dataDir);
  if (!isMarked(await readFields(files, paths.settings))) return [];
  const service = await findService(files);
  const startsAtBoot = service?.dataDir === dataDir && service.startsAtBoot;
  const isActive = startsAtBoot || (await findSupervisor(files, paths)) !== undefined;
  // Settings in the format of a newer version are unknown.
  const settings = await readSettings({ files, paths }).catch(() => ({}));
  return [{ dataDir, isActive, settings }];
}

export async function listOtherMachines(
  files: Files,
  ownDataDir: string,
): Promise<readonly OtherMachine[]> {
  const dataDirs = (await listDataDirs(files)).filter((dataDir) => dataDir !== ownDataDir);
  return (await Promise.all(dataDirs.map((dataDir) => observeMachine(files, dataDir)))).flat();
}

/** Records the machine. Other records remain, because a missing data directory can be on a file system that is not mounted. */
export async function registerMachine(files: Files, dataDir: string): Promise<void> {
  const text = `${JSON.stringify({ dataDir })}\n`;
  const path = buildRecordPath(dataDir);
  if ((await files.readText(path)) === text) return;
  await files.ensureDirectory(MACHINES_DIR);
  await files.writeAtomic(path, text);
}

/** Removes the record. The directory of records remains, because another machine can register itself at this time. */
export async function unregisterMachine(files: Files, dataDir: string): Promise<void> {
  await files.remove(buildRecordPath(dataDir));
}
