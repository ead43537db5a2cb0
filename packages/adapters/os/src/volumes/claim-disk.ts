// SPDX-License-Identifier: Apache-2.0
// The port ClaimDisk on this machine: sparse files, ext4 in them or loop devices over them.
import { constants } from "node:fs";
import { open, readFile, realpath, rename, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { AppError } from "@patchbay/core/errors";
import type { ClaimDisk, ClaimSize, ProcessRunner } from "@patchbay/core/ports";
import { deviceNumbersOf } from "../files/device-nodes.ts";
import { isMissing, toFileError } from "../files/file-errors.ts";
import { fileBytesOf, formatOf, MOUNT_OPTIONS } from "./claim-image.ts";
import { listLoopDevices } from "./loop-devices.ts";
import { listMounts } from "./mounts.ts";

/** Deadline of mount, umount, losetup and mke2fs, milliseconds. */
const TIMEOUT_MS = 60_000;
/** Deadline of a journal that is replayed, and of a walk over all files, milliseconds. */
const CHECK_TIMEOUT_MS = 600_000;
/** Exit codes of e2fsck below it: whole, or mended. Source: e2fsck(8). */
const UNCORRECTED = 4;

class MachineClaims implements ClaimDisk {
  readonly #runner: ProcessRunner;

  constructor(runner: ProcessRunner) {
    this.#runner = runner;
  }

  async make(file: string, size: ClaimSize): Promise<void> {
    if (await isThere(file)) return;
    const temporary = `${file}.tmp`;
    try {
      await rm(temporary, { force: true });
      await makeHole(temporary, fileBytesOf(size));
      if (size.kind === "files") await this.#run("mke2fs", ...formatOf(size), temporary);
      await syncPath(temporary);
      await rename(temporary, file);
      await syncPath(dirname(file));
    } catch (error) {
      await rm(temporary, { force: true });
      throw toFileError(error, "make claim", file);
    }
  }

  async mount(
    file: string,
    { directory, group }: { readonly directory: string; readonly group?: number },
  ): Promise<void> {
    await mustBeThere(file, "mount");
    if (!(await listMounts(directory)).includes(directory)) {
      // Somebody else's namespace may still have it mounted: then it is no time to check it, and the same device serves.
      if ((await listLoopDevices(this.#runner, file)).length === 0) await this.#check(file);
      await this.#run("mkdir", "--parents", "--mode=0750", directory);
      await this.#run("mount", "-t", "ext4", "-o", MOUNT_OPTIONS, file, directory);
    }
    if (group !== undefined) await this.#giveTo(group, directory);
  }

  async attach(file: string): Promise<string> {
    await mustBeThere(file, "attach");
    // One that is there already is taken, and stays from now on: two devices over one file would not know of each other.
    const { stdout } = await this.#run("losetup", "--nooverlap", "--find", "--show", file);
    const device = stdout.trim();
    await mustBeDeviceOf(device, file);
    return device;
  }

  async release(file: string, directory: string): Promise<void> {
    if ((await listMounts(directory)).includes(directory)) await this.#run("umount", directory);
    // Others go with their last user: one that has gone meanwhile may be somebody else's by now.
    const devices = (await listLoopDevices(this.#runner, file)).filter(
      ({ isLasting }) => isLasting,
    );
    for (const { name } of devices) await this.#run("losetup", "--detach", name);
  }

  /** Replays the journal; more than that is for a person to decide. */
  async #check(file: string): Promise<void> {
    const argv = ["e2fsck", "-p", file] as const;
    const { exitCode, stdout } = await this.#runner.run({ argv, timeoutMs: CHECK_TIMEOUT_MS });
    if (exitCode < UNCORRECTED) return;
    const said = stdout.trim().split("\n").at(-1) ?? "";
    const reason = `the file system in it is damaged (${said}): copy the file, then run e2fsck on it`;
    throw new AppError("OS_FILE_FAILED", { call: "mount", path: file, reason });
  }

  /** As a kubelet does for fsGroup: once, while nobody uses the files. Source: Kubernetes volume_linux.go SetVolumeOwnership. */
  async #giveTo(group: number, directory: string): Promise<void> {
    const { gid } = await stat(directory);
    if (gid === group) return;
    const below = ["find", directory, "-xdev"];
    const owner = ["-exec", "chgrp", "--no-dereference", String(group), "{}", "+"];
    const directories = ["-type", "d", "-exec", "chmod", "ug+rwx,g+s", "{}", "+"];
    const files = ["-type", "f", "-exec", "chmod", "ug+rw", "{}", "+"];
    await this.#run(...below, "-mindepth", "1", ...owner);
    await this.#run(...below, "-mindepth", "1", "(", ...directories, ")", "-o", "(", ...files, ")");
    // Last, since it tells that all is done.
    await this.#run("chmod", "2775", directory);
    await this.#run("chgrp", String(group), directory);
  }

  async #run(...argv: readonly string[]): Promise<{ readonly stdout: string }> {
    const [program = "", ...args] = argv;
    const isWalk = program === "find";
    const timeoutMs = isWalk ? CHECK_TIMEOUT_MS : TIMEOUT_MS;
    const result = await this.#runner.run({ argv: [program, ...args], timeoutMs });
    const { exitCode, stderr } = result;
    if (exitCode === 0) return result;
    throw new AppError("OS_PROGRAM_FAILED", { program, exitCode, stderr: stderr.trim() });
  }
}

async function isThere(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if (isMissing(error)) return false;
    throw toFileError(error, "stat", path);
  }
}

async function mustBeThere(path: string, call: string): Promise<void> {
  if (await isThere(path)) return;
  const reason = "it does not exist: restore it from a backup, or delete the claim";
  throw new AppError("OS_FILE_FAILED", { call, path, reason });
}

/** Opens the device and looks: a runtime takes it by its path, and gives whatever is there. */
async function mustBeDeviceOf(device: string, file: string): Promise<void> {
  try {
    await using opened = await open(device, constants.O_RDONLY | constants.O_NOFOLLOW);
    const status = await opened.stat();
    const numbers = deviceNumbersOf(status).join(":");
    const source = `/sys/dev/block/${numbers}/loop/backing_file`;
    const backing = status.isBlockDevice() ? (await readFile(source, "utf8")).trim() : "";
    if (backing === (await realpath(file))) return;
  } catch (error) {
    throw toFileError(error, "attach", device);
  }
  const reason = `it is not the device of ${file}`;
  throw new AppError("OS_FILE_FAILED", { call: "attach", path: device, reason });
}

async function makeHole(path: string, bytes: number): Promise<void> {
  const file = await open(path, "wx", 0o600);
  try {
    await file.truncate(bytes);
  } finally {
    await file.close();
  }
}

/** Waits until the file or directory is on the disk. */
async function syncPath(path: string): Promise<void> {
  const file = await open(path, "r");
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Claims on this machine's disk; needs root and loop devices. */
export function createClaimDisk({ runner }: { readonly runner: ProcessRunner }): ClaimDisk {
  return new MachineClaims(runner);
}
