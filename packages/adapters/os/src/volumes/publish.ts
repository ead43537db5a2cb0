// SPDX-License-Identifier: Apache-2.0
// How do the files of a directory change all at once? Source: Kubernetes pkg/volume/util atomic_writer: the files are in a
// directory of their own, `..data` names it, and the names that a pod sees are links through `..data`.
import {
  chmod,
  chown,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  symlink,
  writeFile,
} from "node:fs/promises";
import { dirname, join } from "node:path";
import type { VolumeFile } from "@patchbay/core/ports";
import { isMissing } from "../files/file-errors.ts";

const DATA = "..data";
const NEXT = "..data_tmp";
const PERMISSIONS = 0o7777;
const DIRECTORY_MODE = 0o755;

async function unlessMissing<T>(operation: Promise<T>): Promise<T | undefined> {
  try {
    return await operation;
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

async function isSame(path: string, file: VolumeFile): Promise<boolean> {
  const status = await unlessMissing(lstat(path));
  if (status?.isFile() !== true) return false;
  if ((status.mode & PERMISSIONS) !== file.mode) return false;
  if (status.uid !== (file.uid ?? 0) || status.gid !== (file.gid ?? 0)) return false;
  return file.bytes.length === status.size && (await readFile(path)).equals(file.bytes);
}

async function countFiles(directory: string): Promise<number> {
  const entries =
    (await unlessMissing(readdir(directory, { recursive: true, withFileTypes: true }))) ?? [];
  return entries.filter((entry) => !entry.isDirectory()).length;
}

async function isCurrent(
  directory: string,
  files: ReadonlyMap<string, VolumeFile>,
): Promise<boolean> {
  if ((await countFiles(directory)) !== files.size) return false;
  for (const [path, file] of files) {
    if (!(await isSame(join(directory, path), file))) return false;
  }
  return true;
}

async function writeFiles(
  directory: string,
  files: ReadonlyMap<string, VolumeFile>,
): Promise<void> {
  await chmod(directory, DIRECTORY_MODE);
  for (const [path, { bytes, mode, uid = 0, gid = 0 }] of files) {
    const target = join(directory, path);
    await mkdir(dirname(target), { recursive: true, mode: DIRECTORY_MODE });
    await writeFile(target, bytes, { flag: "wx", mode: 0o600 });
    await chown(target, uid, gid);
    await chmod(target, mode);
  }
}

function firstNames(files: ReadonlyMap<string, VolumeFile>): ReadonlySet<string> {
  return new Set([...files.keys()].map((path) => path.split("/")[0] ?? path));
}

/** Lets the pod see the names: links through `..data`; a name that is a link already is right. */
async function linkNames(directory: string, names: ReadonlySet<string>): Promise<void> {
  for (const name of names) {
    const target = join(DATA, name);
    const current = await readlink(join(directory, name)).catch(() => undefined);
    if (current === target) continue;
    await rm(join(directory, name), { recursive: true, force: true });
    await symlink(target, join(directory, name));
  }
}

/** Takes away names of files that are no more, and directories of earlier writes, also of one that was cut short. */
async function sweep(directory: string, keep: ReadonlySet<string>): Promise<void> {
  for (const name of await readdir(directory)) {
    if (!keep.has(name)) await rm(join(directory, name), { recursive: true, force: true });
  }
}

/** Makes `files` the files of the directory; answers whether anything changed. The directory is ours alone to write. */
export async function publishFiles(
  directory: string,
  files: ReadonlyMap<string, VolumeFile>,
): Promise<boolean> {
  const names = firstNames(files);
  const current = await unlessMissing(readlink(join(directory, DATA)));
  const isNew = current === undefined || !(await isCurrent(join(directory, current), files));
  const data = isNew ? await mkdtemp(`${directory}/..`) : join(directory, current);
  const dataName = data.slice(directory.length + 1);
  if (isNew) {
    await writeFiles(data, files);
    await rm(join(directory, NEXT), { force: true });
    await symlink(dataName, join(directory, NEXT));
    await rename(join(directory, NEXT), join(directory, DATA));
  }
  await linkNames(directory, names);
  await sweep(directory, new Set([DATA, dataName, ...names]));
  return isNew;
}
