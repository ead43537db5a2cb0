// SPDX-License-Identifier: Apache-2.0
// The port VolumeDisk on this machine: tmpfs, ext4 in files behind loop devices, du.
import {
  chmod,
  chown,
  mkdir,
  rename,
  rm,
  rmdir,
  stat,
  truncate,
  writeFile,
} from "node:fs/promises";
import { join } from "node:path";
import { AppError } from "@patchbay/core/errors";
import { KeyedMutex } from "@patchbay/core/keyed-mutex";
import type {
  DirectoryAccess,
  InheritedFd,
  PathKind,
  ProcessRunner,
  VolumeDisk,
} from "@patchbay/core/ports";
import { isMissing, toFileError } from "../files/file-errors.ts";
import { openDirectory } from "../files/open-directory.ts";
import { listLoopDevices } from "./loop-devices.ts";
import { listMounts } from "./mounts.ts";
import { publishFiles } from "./publish.ts";

/** Deadline of mount, umount and mke2fs, milliseconds. */
const MOUNT_TIMEOUT_MS = 30_000;
/** Deadline of a walk over trees, milliseconds. */
const WALK_TIMEOUT_MS = 120_000;
/** What ext4 takes for itself beside the data: inodes of 256 bytes for each 16 KiB, and a floor. */
const OWN_SHARE = 32;
const OWN_BYTES = 1024 * 1024;
const BLOCK_BYTES = 4096;
/** What a program sees the first descriptor as that it inherits. Source: Command.inheritFds. */
const INHERITED = "/proc/self/fd/3";
/** Exit codes of e2fsck below it: whole, or mended. Source: e2fsck(8). */
const UNCORRECTED = 4;
/** Without a journal: what is in it is worth nothing to anybody but the pod, and is checked before it is mounted again. */
const FORMAT = ["-q", "-F", "-t", "ext4", "-b", "4096", "-i", "16384", "-I", "256", "-m", "0"];
const FEATURES = ["-O", "^has_journal,^resize_inode", "-E", "lazy_itable_init=1,nodiscard"];

interface ImageOptions {
  readonly access: DirectoryAccess;
  readonly image: string;
  readonly sizeBytes: number;
}

class MachineDisk implements VolumeDisk {
  readonly #runner: ProcessRunner;
  /**
   * By path: what is done to a directory waits for what is being done to it. A publication takes away what another has not
   * finished, and a second mount would hide what is being written into the first.
   */
  readonly #mutex = new KeyedMutex();

  constructor(runner: ProcessRunner) {
    this.#runner = runner;
  }

  async makeDirectory(path: string, { uid, gid, mode }: DirectoryAccess): Promise<void> {
    try {
      await mkdir(path, { recursive: true, mode: 0o750 });
      const status = await stat(path);
      // A change of owner takes the bits of set-user-id and set-group-id away.
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
      if (!(await this.#isWhole(image))) await this.#makeImage(image, sizeBytes);
      await this.makeDirectory(path, { uid: 0, gid: 0, mode: 0o750 });
      await this.#run("mount", "-t", "ext4", "-o", "loop,nosuid,nodev,discard", image, path);
      await rmdir(join(path, "lost+found")).catch(() => undefined); // e2fsck makes it anew where it needs it
    }
    await this.makeDirectory(path, access);
  }

  async mountDirectory(path: string, source: string): Promise<void> {
    await this.#mutex.runExclusive(path, async () => {
      if (await isMounted(path)) return;
      const directory = openDirectory(source);
      try {
        await this.makeDirectory(path, { uid: 0, gid: 0, mode: 0o750 });
        // By the descriptor, which mount(8) must not make a path of again.
        const options = ["--no-canonicalize", "-o", "bind,nosuid,nodev,noexec"];
        await this.#runWith([directory], "mount", ...options, INHERITED, path);
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
    // Trees change while they are walked: exit code 1, and what could be counted.
    const { stdout } = await this.#runner.run({ argv, timeoutMs: WALK_TIMEOUT_MS });
    return parseUsage(stdout);
  }

  async kindOf(path: string): Promise<PathKind | undefined> {
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
    const bytes = sizeBytes + sizeBytes / OWN_SHARE + OWN_BYTES;
    try {
      await rm(temporary, { force: true });
      await writeFile(temporary, "", { mode: 0o600 });
      await truncate(temporary, Math.ceil(bytes / BLOCK_BYTES) * BLOCK_BYTES);
      await this.#run("mke2fs", ...FORMAT, ...FEATURES, temporary);
      await rename(temporary, image);
    } catch (error) {
      await rm(temporary, { force: true });
      throw toFileError(error, "make image", image);
    }
  }

  /**
   * Whether the file is there, and a file system after what a power cut may have left was mended. e2fsck ends with the same
   * code where a file is mounted, so that this is asked before.
   */
  async #isWhole(image: string): Promise<boolean> {
    if ((await this.kindOf(image)) === undefined) return false;
    const [user] = await listLoopDevices(this.#runner, image);
    if (user !== undefined) {
      throw new AppError("OS_FILE_IN_USE", { path: image, device: user.name });
    }
    const argv = ["e2fsck", "-p", "-f", image] as const;
    const { exitCode } = await this.#runner.run({ argv, timeoutMs: MOUNT_TIMEOUT_MS });
    return exitCode < UNCORRECTED;
  }

  #run(program: string, ...args: string[]): Promise<void> {
    return this.#runWith([], program, ...args);
  }

  async #runWith(
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

/** Lines of bytes, a tab and a path. Source: du(1). */
function parseUsage(stdout: string): ReadonlyMap<string, number> {
  const lines = stdout.split("\n").filter((line) => line !== "");
  return new Map(
    lines.map((line) => {
      const tab = line.indexOf("\t");
      return [line.slice(tab + 1), Number(line.slice(0, tab))];
    }),
  );
}

/** Volumes on this machine's disk and in its memory; needs root. */
export function createVolumeDisk({ runner }: { readonly runner: ProcessRunner }): VolumeDisk {
  return new MachineDisk(runner);
}
