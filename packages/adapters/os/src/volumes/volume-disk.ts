// SPDX-License-Identifier: Apache-2.0
// Implements VolumeDisk with tmpfs, ext4 images on loop devices, bind mounts, published files and du.
import {
  chmod,
  chown,
  lstat,
  mkdir,
  mkdtemp,
  opendir,
  readFile,
  readlink,
  rename,
  rm,
  rmdir,
  stat,
  symlink,
  truncate,
  writeFile,
} from "node:fs/promises";
import { dirname, join } from "node:path";
import { AppError, KeyedMutex } from "@patchbay/base";

import type {
  DirectoryAccess,
  InheritedFd,
  PathKind,
  ProcessRunner,
  VolumeDisk,
  VolumeFile,
} from "@patchbay/core/interfaces";
import { isMissing, toFileError } from "../files/file-errors.ts";
import { openDirectory } from "../files/open-beneath.ts";
import { listLoopDevices, listMounts } from "./mounts.ts";

const DATA_LINK = "..data";
const NEXT_DATA_LINK = "..data_tmp";
const PERMISSIONS = 0o7777;
const DIRECTORY_MODE = 0o755;

async function undefinedIfMissing<T>(operation: Promise<T>): Promise<T | undefined> {
  try {
    return await operation;
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

async function isSameFile(path: string, file: VolumeFile): Promise<boolean> {
  const status = await undefinedIfMissing(lstat(path));
  if (status?.isFile() !== true) return false;
  if ((status.mode & PERMISSIONS) !== file.mode) return false;
  if (status.uid !== (file.uid ?? 0) || status.gid !== (file.gid ?? 0)) return false;
  return file.bytes.length === status.size && (await readFile(path)).equals(file.bytes);
}

/** Reads directories in portions, because they can have thousands of files. */
async function countFiles(directory: string): Promise<number> {
  let count = 0;
  const directories = [directory];
  for (const path of directories) {
    const entries = (await undefinedIfMissing(opendir(path))) ?? [];
    for await (const entry of entries) {
      if (entry.isDirectory()) directories.push(join(path, entry.name));
      else count += 1;
    }
  }
  return count;
}

async function hasFiles(
  directory: string,
  files: ReadonlyMap<string, VolumeFile>,
): Promise<boolean> {
  if ((await countFiles(directory)) !== files.size) return false;
  for (const [path, file] of files) {
    if (!(await isSameFile(join(directory, path), file))) return false;
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

async function linkNames(directory: string, names: ReadonlySet<string>): Promise<void> {
  for (const name of names) {
    const target = join(DATA_LINK, name);
    const current = await readlink(join(directory, name)).catch(() => undefined);
    if (current === target) continue;
    await rm(join(directory, name), { recursive: true, force: true });
    await symlink(target, join(directory, name));
  }
}

async function removeOthers(directory: string, retainedNames: ReadonlySet<string>): Promise<void> {
  for await (const { name } of await opendir(directory)) {
    if (!retainedNames.has(name)) await rm(join(directory, name), { recursive: true, force: true });
  }
}

/**
 * Replaces all files of a directory atomically by replacing the symbolic link `..data`. The names that a pod sees are
 * links to files below `..data`. Returns whether any file changed. Only this process may write to the directory. Source:
 * Kubernetes pkg/volume/util atomic_writer
 */
export async function publishFiles(
  directory: string,
  files: ReadonlyMap<string, VolumeFile>,
): Promise<boolean> {
  const names = firstNames(files);
  const current = await undefinedIfMissing(readlink(join(directory, DATA_LINK)));
  const isNew = current === undefined || !(await hasFiles(join(directory, current), files));
  const data = isNew ? await mkdtemp(`${directory}/..`) : join(directory, current);
  const dataName = data.slice(directory.length + 1);
  if (isNew) {
    await writeFiles(data, files);
    await rm(join(directory, NEXT_DATA_LINK), { force: true });
    await symlink(dataName, join(directory, NEXT_DATA_LINK));
    await rename(join(directory, NEXT_DATA_LINK), join(directory, DATA_LINK));
  }
  await linkNames(directory, names);
  await removeOthers(directory, new Set([DATA_LINK, dataName, ...names]));
  return isNew;
}

const MOUNT_TIMEOUT_MS = 30_000;
const WALK_TIMEOUT_MS = 120_000;
/** An image has extra space for ext4's metadata: OVERHEAD_BYTES, plus the size of the data divided by this number. */
const OVERHEAD_DIVISOR = 32;
const OVERHEAD_BYTES = 1024 * 1024;
const BLOCK_BYTES = 4096;
/** Path at which a program opens its first inherited descriptor. See Command.inheritFds. */
const INHERITED_PATH = "/proc/self/fd/3";
/** Lowest exit code of e2fsck for a file system that is still damaged. Source: e2fsck(8) */
const UNCORRECTED_EXIT_CODE = 4;
const FORMAT_OPTIONS = [
  "-q",
  "-F",
  "-t",
  "ext4",
  "-b",
  "4096",
  "-i",
  "16384",
  "-I",
  "256",
  "-m",
  "0",
];
/** Options of mke2fs. The image has no journal, because each mount checks the image. */
const FEATURE_OPTIONS = ["-O", "^has_journal,^resize_inode", "-E", "lazy_itable_init=1,nodiscard"];

interface ImageOptions {
  readonly access: DirectoryAccess;
  readonly image: string;
  readonly sizeBytes: number;
}

class HostVolumeDisk implements VolumeDisk {
  readonly #runner: ProcessRunner;
  /** One lock for each path, because concurrent publications would delete each other's files, and concurrent mounts would stack. */
  readonly #mutex = new KeyedMutex();

  constructor(runner: ProcessRunner) {
    this.#runner = runner;
  }

  async makeDirectory(path: string, { uid, gid, mode }: DirectoryAccess): Promise<void> {
    try {
      await mkdir(path, { recursive: true, mode: 0o750 });
      const status = await stat(path);
      // chown clears the set-user-ID and set-group-ID bits, so chmod follows.
      if (status.uid !== uid || status.gid !== gid) await chown(path, uid, gid);
      if ((status.mode & 0o7777) !== mode || status.uid !== uid || status.gid !== gid) {
        await chmod(path, mode);
      }
    } catch (error) {
      throw toFileError(error, "make directory", path);
    }
  }

  async mountMemory(
    path: string,
    { access, sizeBytes }: { readonly access: DirectoryAccess; readonly sizeBytes?: number },
  ): Promise<void> {
    await this.#mutex.runExclusive(path, async () => {
      await this.makeDirectory(path, access);
      if (await isMounted(path)) return;
      const { uid, gid, mode } = access;
      const options = [
        `nosuid,nodev,mode=${mode.toString(8)},uid=${String(uid)},gid=${String(gid)}`,
        ...(sizeBytes === undefined ? [] : [`size=${String(sizeBytes)}`]),
      ];
      await this.#run("mount", "-t", "tmpfs", "-o", options.join(","), "tmpfs", path);
    });
  }

  async mountImage(path: string, { access, image, sizeBytes }: ImageOptions): Promise<void> {
    if (!(await isMounted(path))) {
      if (!(await this.#isIntact(image))) await this.#makeImage(image, sizeBytes);
      await this.makeDirectory(path, { uid: 0, gid: 0, mode: 0o750 });
      await this.#run("mount", "-t", "ext4", "-o", "loop,nosuid,nodev,discard", image, path);
      await rmdir(join(path, "lost+found")).catch(() => undefined);
    }
    await this.makeDirectory(path, access);
  }

  async mountDirectory(path: string, source: string): Promise<void> {
    await this.#mutex.runExclusive(path, async () => {
      if (await isMounted(path)) return;
      const directory = openDirectory(source);
      try {
        await this.makeDirectory(path, { uid: 0, gid: 0, mode: 0o750 });
        // mount(8) must use the descriptor instead of the path, which the pod may have replaced.
        const options = ["--no-canonicalize", "-o", "bind,nosuid,nodev,noexec"];
        await this.#runInheriting([directory], "mount", ...options, INHERITED_PATH, path);
      } finally {
        directory.close();
      }
    });
  }

  async unmountAll(path: string): Promise<void> {
    const points = await listMounts(path);
    for (const point of points.toReversed()) {
      await this.#run("umount", "--lazy", "--no-canonicalize", point);
    }
  }

  listMounts(path: string): Promise<readonly string[]> {
    return listMounts(path);
  }

  async publish(path: string, files: Parameters<VolumeDisk["publish"]>[1]): Promise<boolean> {
    try {
      return await this.#mutex.runExclusive(path, () => publishFiles(path, files));
    } catch (error) {
      throw toFileError(error, "publish", path);
    }
  }

  async usedBytes(paths: readonly string[]): Promise<ReadonlyMap<string, number>> {
    if (paths.length === 0) return new Map();
    const argv = ["nice", "du", "-sx", "-B1", "--", ...paths] as const;
    // If files change during the walk, du exits with 1 and prints what it counted, so the exit code is ignored.
    const { stdout } = await this.#runner.run({ argv, timeoutMs: WALK_TIMEOUT_MS });
    return parseUsage(stdout);
  }

  async readKind(path: string): Promise<PathKind | undefined> {
    try {
      const status = await stat(path);
      if (status.isDirectory()) return "Directory";
      if (status.isFile()) return "File";
      if (status.isSocket()) return "Socket";
      if (status.isCharacterDevice()) return "CharDevice";
      return status.isBlockDevice() ? "BlockDevice" : "Other";
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw toFileError(error, "stat", path);
    }
  }

  async #makeImage(image: string, sizeBytes: number): Promise<void> {
    const temporary = `${image}.tmp`;
    const bytes = sizeBytes + sizeBytes / OVERHEAD_DIVISOR + OVERHEAD_BYTES;
    try {
      await rm(temporary, { force: true });
      await writeFile(temporary, "", { mode: 0o600 });
      await truncate(temporary, Math.ceil(bytes / BLOCK_BYTES) * BLOCK_BYTES);
      await this.#run("mke2fs", ...FORMAT_OPTIONS, ...FEATURE_OPTIONS, temporary);
      await rename(temporary, image);
    } catch (error) {
      await rm(temporary, { force: true });
      throw toFileError(error, "make image", image);
    }
  }

  /**
   * Checks and repairs the image. Returns false if the image is missing or remains damaged.
   * @throws AppError with OS_FILE_IN_USE if a loop device uses the image
   */
  async #isIntact(image: string): Promise<boolean> {
    if ((await this.readKind(image)) === undefined) return false;
    const [loopDevice] = await listLoopDevices(this.#runner, image);
    if (loopDevice !== undefined) {
      throw new AppError("OS_FILE_IN_USE", { path: image, device: loopDevice.name });
    }
    const argv = ["e2fsck", "-p", "-f", image] as const;
    const { exitCode } = await this.#runner.run({ argv, timeoutMs: MOUNT_TIMEOUT_MS });
    return exitCode < UNCORRECTED_EXIT_CODE;
  }

  #run(program: string, ...args: string[]): Promise<void> {
    return this.#runInheriting([], program, ...args);
  }

  async #runInheriting(
    inheritFds: readonly InheritedFd[],
    program: string,
    ...args: string[]
  ): Promise<void> {
    const command = { argv: [program, ...args], inheritFds, timeoutMs: MOUNT_TIMEOUT_MS } as const;
    const { exitCode, stderr } = await this.#runner.run(command);
    if (exitCode === 0) return;
    throw new AppError("OS_PROGRAM_FAILED", { program, exitCode, stderr: stderr.trim() });
  }
}

async function isMounted(path: string): Promise<boolean> {
  return (await listMounts(path)).includes(path);
}

/** Parses the size of each path, in bytes. Source: du(1) */
function parseUsage(stdout: string): ReadonlyMap<string, number> {
  const lines = stdout.split("\n").filter((line) => line !== "");
  return new Map(
    lines.map((line) => {
      const tab = line.indexOf("\t");
      return [line.slice(tab + 1), Number(line.slice(0, tab))];
    }),
  );
}

export function createVolumeDisk({ runner }: { readonly runner: ProcessRunner }): VolumeDisk {
  return new HostVolumeDisk(runner);
}
